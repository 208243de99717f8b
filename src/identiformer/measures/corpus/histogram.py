"""Quantiles of shares between 0 and 1 from a histogram of fixed bins, so that the error is known and states stay small."""

import numpy as np

BINS = 1000
QUANTILE_ERROR = 0.5 / BINS
"""A quantile is the middle of a bin; the share at that rank lies in the bin, so no farther away than this."""


def histogram(shares: np.ndarray) -> np.ndarray:
    """Counts over the last axis of shares, in bins of equal width along a new last axis."""
    places = np.minimum((shares * BINS).astype(np.int64), BINS - 1)
    rows = places.reshape(-1, places.shape[-1])
    counts = np.stack([np.bincount(row, minlength=BINS) for row in rows])
    return counts.reshape(*places.shape[:-1], BINS).astype(np.int64)


def quantiles(counts: np.ndarray, levels: tuple[float, ...]) -> np.ndarray:
    """The quantile of each level along a new first axis; NaN where nothing was counted.

    >>> quantiles(histogram(np.array([0.1004, 0.2004, 0.9])), (0.5,)).item()
    0.2005
    """
    reached = counts.cumsum(-1)
    number = reached[..., -1:]
    found = [(reached < np.maximum(np.ceil(level * number), 1)).sum(-1) for level in levels]
    return np.where(number[..., 0] > 0, (np.stack(found) + 0.5) / BINS, np.nan)
