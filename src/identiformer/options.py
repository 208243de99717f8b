"""Numbers that users choose in many places, checked the same way everywhere."""

import sys
from numbers import Integral

from identiformer.errors import InputError

LARGEST_SEED = 2**32 - 1
"""The largest that all generators of random numbers take."""


def check_seed(seed: int, largest: int = LARGEST_SEED) -> int:
    """Return a seed that the generators of random numbers take."""
    if not isinstance(seed, Integral) or isinstance(seed, bool) or not 0 <= seed <= largest:
        raise InputError(f"expected a seed from 0 to {largest}, got {_short(seed)}; choose another.")
    return seed


def check_limit(limit: int | None) -> int | None:
    """Return how many examples to read at most; None is all of them."""
    if limit is None:
        return None
    if not isinstance(limit, Integral) or isinstance(limit, bool) or not 1 <= limit <= sys.maxsize:
        raise InputError(
            f"expected at least one example to read, and at most {sys.maxsize}, got {_short(limit)}; leave the limit out for all."
        )
    return limit


def _short(value: object) -> str:
    """The beginning of a value; a whole number may have more digits than Python prints."""
    if isinstance(value, int) and value.bit_length() > 128:
        return f"a number of {value.bit_length()} bits"
    return repr(value)[:60]
