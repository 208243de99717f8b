"""Checks of options that many functions and commands share. They need no torch, so that a mistake is answered at once."""

import re
import sys
from numbers import Integral

from identiformer.errors import InputError

WEIGHTS_BUDGET = 2 * 2**30
"""Bytes of query x key arrays that a trace or a result may hold by default. Beyond it a trace keeps effective attention in
factored form. It leaves room for the model, and for the copies that measures make, on a machine with 8 GiB."""
LARGEST_SEED = 2**32 - 1
"""The largest seed that all generators of random numbers accept."""
SIZE = re.compile("([0-9]{1,9}(?:[.][0-9]{1,9})?) ?([kmgt])i?b?", re.IGNORECASE)
MOST_EPOCHS, MOST_RESPLITS = 1000, 10_000
"""More are taken for a mistake."""
FEWEST_EXAMPLES = 4
"""With fewer, 15% of them round to none."""
DIRECTIONS = 16
SMALLEST_TOLERANCE = 1e-6
"""Rounding of a model itself in float32; no number of directions gets below it."""


def _is_integer(value: object, smallest: int, largest: int) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and smallest <= int(value) <= largest


def check_seed(seed: int, largest: int = LARGEST_SEED) -> int:
    """Return the seed if all generators of random numbers accept it."""
    if not _is_integer(seed, 0, largest):
        raise InputError(f"expected a seed from 0 to {largest}, got {_short(seed)}; choose another.")
    return seed


def check_limit(limit: int | None) -> int | None:
    """Return the largest number of examples to read, if it is valid; None means all."""
    if limit is not None and not _is_integer(limit, 1, sys.maxsize):
        raise InputError(
            f"expected at least one example to read, and at most {sys.maxsize}, got {_short(limit)}; leave the limit out for all."
        )
    return limit


def check_memory(memory: int | str) -> int:
    """Return a size of memory in bytes, from an integer or a text such as 4GiB."""
    size = memory
    if isinstance(memory, str) and (written := SIZE.fullmatch(memory)):
        size = int(float(written[1]) * 2 ** (10 * (1 + "kmgt".index(written[2].lower()))))
    if not _is_integer(size, 1, sys.maxsize):
        raise InputError(f"expected a size of memory such as 500MiB or 4GiB, got {_short(memory)}; choose one.")
    return int(size)


def check_resplits(resplits: int) -> int:
    """Return the number of resplits, if it is valid."""
    if resplits < 1:
        raise InputError(f"expected at least one resplit, got {resplits}.")
    if resplits > MOST_RESPLITS:
        raise InputError(f"expected at most {MOST_RESPLITS} resplits, got {_short(resplits)}; the paper takes 10.")
    return resplits


def check_epochs(epochs: int | None) -> int | None:
    """Return the number of epochs, if it is valid; None means the default."""
    if epochs is not None and epochs < 1:
        raise InputError(f"expected at least one epoch, got {epochs}.")
    if epochs is not None and epochs > MOST_EPOCHS:
        raise InputError(f"expected at most {MOST_EPOCHS} epochs, got {_short(epochs)}; a GLUE task takes about three.")
    return epochs


def check_new_tokens(number: int) -> None:
    """Check the largest number of tokens to write."""
    if not 1 <= number < 2**31:
        raise InputError(f"expected at least 1 new token, and at most {2**31 - 1}, got {_short(number)}.")


def check_temperature(temperature: float) -> float:
    """Return the temperature of sampling, if it is valid."""
    if not 0 <= temperature < float("inf"):
        raise InputError(f"expected a temperature of 0, which is greedy, or above, got {temperature}.")
    return temperature


def check_examples(examples: int) -> int:
    """Return the number of examples to learn probes from, if each split gets one."""
    if examples < FEWEST_EXAMPLES:
        raise InputError(f"expected at least {FEWEST_EXAMPLES} examples, for training, validation and test, got {examples}.")
    return examples


def check_generation_config(source: str | None) -> str | None:
    """Return whose settings decide besides the logits, if that is valid: the model's, or None for no settings."""
    if source not in (None, "model"):
        raise InputError(f"expected generation_config 'model', or none for the model's logits alone, got {_short(source)}.")
    return source


def check_max_length(length: int | None) -> int | None:
    """Return the number of tokens to which texts are truncated, if it is valid; None means that of the model."""
    if length is not None and not 1 <= length < 2**31:
        raise InputError(f"expected a largest length of at least 1 token, and at most {2**31 - 1}, got {_short(length)}.")
    return length


def check_accuracy(directions: int, exact: bool, tolerance: float | None, width: int | None = None) -> None:
    """Check how exactly Hidden Token Attribution is to be computed, for inputs of a width if it is known."""
    if not exact and not 2 <= directions <= (width or sys.maxsize):
        number = "at least 2 directions" if width is None else f"from 2 to {width} directions, the input's width"
        raise InputError(f"expected {number}, got {_short(directions)}; use exact=True for all.")
    if tolerance is not None and (exact or not 0 < tolerance < 1):
        raise InputError(
            f"expected a tolerance between 0 and 1, and none for an exact computation, got {tolerance}"
            f"{' with exact=True' if exact else ''}."
        )
    if tolerance is not None and tolerance < SMALLEST_TOLERANCE:
        raise InputError(
            f"expected a tolerance of {SMALLEST_TOLERANCE:g} or more, which the model's rounding allows, got "
            f"{tolerance:g}; use exact=True for whole Jacobians."
        )


def _short(value: object) -> str:
    """The beginning of a value; an integer may have more digits than Python prints."""
    if isinstance(value, int) and value.bit_length() > 128:
        return f"a number of {value.bit_length()} bits"
    return repr(value)[:60]
