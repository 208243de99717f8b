"""Means over examples with bootstrap intervals: the same bits on every machine and in every order."""

from typing import NamedTuple

import numpy as np

from identiformer.errors import InputError

BITS = 30
"""Scores are rounded to multiples of 2^-30. Sums of such numbers are exact in float64, so no order of adding changes a bit."""
RESAMPLES = 1000
LEVELS = (0.025, 0.975)
UNDEFINED = -(2**61)
"""NaN among fixed-point numbers."""
LARGEST = 2.0**20


class Estimate(NamedTuple):
    """A mean over examples and its 95% interval."""

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    """NaN, as `low`, where fewer than two examples are defined."""
    examples: np.ndarray
    """How many examples are defined."""


def to_fixed_point(scores: np.ndarray) -> np.ndarray:
    """Scores as int64 multiples of 2^-30.

    >>> to_fixed_point(np.array([0.5, np.nan])).tolist()
    [536870912, -2305843009213693952]
    """
    defined = ~np.isnan(scores)
    numbers = np.where(defined, scores, 0)
    if not np.all(np.abs(numbers) < LARGEST):
        raise InputError(f"expected scores below {LARGEST:.0f}, got {numbers[~(np.abs(numbers) < LARGEST)].flat[0]}.")
    return np.where(defined, np.rint(numbers * 2.0**BITS).astype(np.int64), UNDEFINED)


def from_fixed_point(numbers: np.ndarray) -> np.ndarray:
    """The scores that fixed-point numbers represent."""
    return np.where(numbers == UNDEFINED, np.nan, numbers / 2.0**BITS)


def estimate(scores: np.ndarray, seed: int = 0) -> Estimate:
    """The mean of scores (example, …) over examples, with the interval of resampled examples.

    The same resamples serve all scores, so differences of scores of the same examples are paired.

    >>> estimate(np.array([0.0, 1.0, 1.0, np.nan])).mean.round(3).item()
    0.667
    """
    fixed = to_fixed_point(scores)
    defined = (fixed != UNDEFINED).astype(np.float64).reshape(len(scores), -1)
    numbers = np.where(fixed == UNDEFINED, 0, fixed).astype(np.float64).reshape(len(scores), -1)
    counts = np.random.default_rng(seed).multinomial(len(scores), np.full(len(scores), 1 / len(scores)), RESAMPLES)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = numbers.sum(0) / defined.sum(0) / 2.0**BITS
        resampled = (counts.astype(np.float64) @ numbers) / (counts.astype(np.float64) @ defined) / 2.0**BITS
    enough = defined.sum(0) >= 2
    bounds = np.full((2, mean.size), np.nan)
    bounds[:, enough] = np.nanquantile(resampled[:, enough], LEVELS, axis=0)
    shape = scores.shape[1:]
    return Estimate(*(each.reshape(shape) for each in (mean, *bounds, defined.sum(0).astype(np.int64))))
