"""Sums of real numbers that do not depend on the order of adding: fixed point, in four limbs of 32 bits.

A number x is written as Σ_k limb_k·2^(-32k), k = 0…3. Splitting is exact down to 2^-96, whole numbers are added, and the
total is rounded once, at the end. So limbs of 2^30 numbers, each below 2^31 in size, fit into int64.
"""

import numpy as np

from identiformer.errors import InputError

LIMBS = 4
BITS = 32
LARGEST = 2.0 ** (BITS - 1)


def split(numbers: np.ndarray) -> np.ndarray:
    """The limbs of each number, along a new last axis.

    >>> split(np.array(1.5)).tolist()
    [1, 2147483648, 0, 0]
    """
    rest = np.asarray(numbers, dtype=np.float64)
    if not np.all(np.abs(rest) < LARGEST):  # NaN fails, too
        raise InputError(f"expected finite numbers below {LARGEST:.0f} to sum up, got {rest[~(np.abs(rest) < LARGEST)].flat[0]}.")
    limbs = np.empty((*rest.shape, LIMBS), dtype=np.int64)
    for place in range(LIMBS):
        whole = np.trunc(rest)
        limbs[..., place] = whole
        rest = (rest - whole) * 2.0**BITS
    return limbs


def total(limbs: np.ndarray) -> np.ndarray:
    """The numbers that limbs stand for, rounded once.

    >>> total(split(np.array([0.1, 0.2])).sum(0)).item()
    0.30000000000000004
    """
    scaled = sum(limbs[..., place].astype(object) << (BITS * (LIMBS - 1 - place)) for place in range(LIMBS))
    return np.asarray(scaled / 2 ** (BITS * (LIMBS - 1)), dtype=np.float64)


def mean(limbs: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Sums divided by how many numbers are in them; NaN where there are none."""
    with np.errstate(all="ignore"):
        return np.where(count > 0, total(limbs) / np.maximum(count, 1), np.nan)


def sums(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Limbs of each number and a count of one, both zero where it is NaN: what is undefined is left out of the mean."""
    defined = ~np.isnan(numbers)
    return split(np.where(defined, numbers, 0.0)), defined.astype(np.int64)
