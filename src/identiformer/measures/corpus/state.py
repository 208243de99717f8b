"""Sums, means and quantiles over a corpus that do not depend on the order in which its examples are added.

A State holds only integers. Real numbers are split into fixed-point limbs: x = Σ_k limb_k·2^(-32k), k = 0…3, exact down to
2^-96, and the total is rounded once, at the end. 2^30 numbers below 2^31 fit into int64 limbs. Quantiles of shares come from
a histogram of fixed bins, so that their error is known and states stay small.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from identiformer.errors import InputError, ResultError

LIMIT = 2**62
LIMBS, BITS = 4, 32
LARGEST = 2.0 ** (BITS - 1)
BINS = 1000
QUANTILE_ERROR = 0.5 / BINS
"""A quantile is the middle of the bin that holds the share of that rank, so it is off by no more than this."""


@dataclass(frozen=True, eq=False)
class State:
    """Totals by name, int64 of any shape. Merging adds them; a name that one side lacks counts as zero there.

    >>> State.empty().merge(State({"tokens": np.array(3)})).merge(State({"tokens": np.array(4)}))["tokens"]
    array(7)
    """

    totals: Mapping[str, np.ndarray] = field(default_factory=dict)

    @classmethod
    def empty(cls) -> "State":
        return cls({})

    def __getitem__(self, name: str) -> np.ndarray:
        return self.totals[name]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, State) or self.totals.keys() != other.totals.keys():
            return False
        return all(np.array_equal(total, other[name]) for name, total in self.totals.items())

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def merge(self, other: "State") -> "State":
        """The state of both corpora together."""
        totals = dict(self.totals)
        for name, total in other.totals.items():
            totals[name] = _add(name, totals[name], total) if name in totals else total
        return State(dict(sorted(totals.items())))


@dataclass(frozen=True)
class Failure:
    """An example that could not be measured."""

    example: int
    """Its number in the corpus, from 0."""
    text: str
    what: str
    """The measure that failed; or `tokenizing`, `answering` or `running`, if the model did not get that far."""
    error: str


def _add(name: str, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    if left.shape != right.shape:
        raise ResultError(
            f"expected states of one model and one set of settings, got {name} of shapes {left.shape} and {right.shape}."
        )
    added = np.asarray(left + right)
    if added.size and max(abs(int(added.max())), abs(int(added.min()))) >= LIMIT:
        raise ResultError(f"expected totals below 2^62, but {name} is larger; split the corpus and compare the parts.")
    return added


def split(numbers: np.ndarray) -> np.ndarray:
    """The limbs of each number, along a new last axis.

    >>> split(np.array(1.5)).tolist()
    [1, 2147483648, 0, 0]
    """
    rest = np.asarray(numbers, dtype=np.float64)
    if not np.all(np.abs(rest) < LARGEST):  # NaN fails, too
        raise InputError(f"expected finite numbers below {LARGEST:.0f} to sum up, got {rest[~(np.abs(rest) < LARGEST)].flat[0]}.")
    limbs = np.empty((*rest.shape, LIMBS), dtype=np.int64)
    for limb in range(LIMBS):
        whole = np.trunc(rest)
        limbs[..., limb] = whole
        rest = (rest - whole) * 2.0**BITS
    return limbs


def total(limbs: np.ndarray) -> np.ndarray:
    """The numbers that limbs represent, rounded once.

    >>> total(split(np.array([0.1, 0.2])).sum(0)).item()
    0.30000000000000004
    """
    scaled = sum(limbs[..., limb].astype(object) << (BITS * (LIMBS - 1 - limb)) for limb in range(LIMBS))
    return np.asarray(scaled / 2 ** (BITS * (LIMBS - 1)), dtype=np.float64)


def mean(limbs: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Sums divided by the number of terms; NaN where there are none."""
    with np.errstate(all="ignore"):
        return np.where(count > 0, total(limbs) / np.maximum(count, 1), np.nan)


def sums(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Limbs of each number and a count of one; both zero where it is NaN, which leaves it out of the mean."""
    defined = ~np.isnan(numbers)
    return split(np.where(defined, numbers, 0.0)), defined.astype(np.int64)


def histogram(shares: np.ndarray) -> np.ndarray:
    """Counts of the shares along the last axis, in bins of equal width along a new last axis."""
    bins = np.minimum((shares * BINS).astype(np.int64), BINS - 1)
    counts = np.stack([np.bincount(row, minlength=BINS) for row in bins.reshape(-1, bins.shape[-1])])
    return counts.reshape(*bins.shape[:-1], BINS).astype(np.int64)


def quantiles(counts: np.ndarray, levels: tuple[float, ...]) -> np.ndarray:
    """The quantile of each level, along a new first axis; NaN where nothing was counted.

    >>> quantiles(histogram(np.array([0.1004, 0.2004, 0.9])), (0.5,)).item()
    0.2005
    """
    cumulative = counts.cumsum(-1)
    number = cumulative[..., -1:]
    bins = [(cumulative < np.maximum(np.ceil(level * number), 1)).sum(-1) for level in levels]
    return np.where(number[..., 0] > 0, (np.stack(bins) + 0.5) / BINS, np.nan)
