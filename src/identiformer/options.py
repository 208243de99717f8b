"""Checks of options that many functions and commands share: seeds and limits."""

import sys
from numbers import Integral

from identiformer.errors import InputError

LARGEST_SEED = 2**32 - 1
"""The largest seed that all generators of random numbers accept."""


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


def _short(value: object) -> str:
    """The beginning of a value; an integer may have more digits than Python prints."""
    if isinstance(value, int) and value.bit_length() > 128:
        return f"a number of {value.bit_length()} bits"
    return repr(value)[:60]
