"""Idle attention: how much of the weight can be removed everywhere at once before an output changes by more than a budget."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int16
from torch import Tensor

STEPS = 512
"""Levels per factor of two."""
LEVELS = 2**16
"""Of scores from 2^-64 to 2^64; smaller and larger ones have the first and the last."""
NEVER = 2**15 - 1
"""The level of weights that are not removed."""


def score_levels(scores: Float[Tensor, "*shape"]) -> Int16[Tensor, "*shape"]:
    """Scores on a logarithmic scale, in two bytes each: their order, up to 0.14%.

    Examples
    --------
    >>> score_levels(torch.tensor([0.0, 0.5, 1.0, 2.0]))
    tensor([-32768,   -512,      0,    512], dtype=torch.int16)
    """
    return (scores.double().log2() * STEPS).round().clamp(-LEVELS // 2, NEVER - 1).to(torch.int16)


class Idle(NamedTuple):
    """The largest set of weights, smallest scores first, whose joint removal stays within a budget."""

    level: int
    """Of the weights with the largest scores in the set; `score_levels` at most this are in it."""
    share: float
    """Of the weight that is in it."""
    change: float
    """Of the output, when all of it is removed."""
    runs: int


def largest_within_budget(
    mass: Float[np.ndarray, " level"], change: Callable[[int], float], budget: float, precision: float = 0.01
) -> Idle:
    """Find by bisection how many weights, in the order of their scores, can be removed at once within a budget of change.

    Parameters
    ----------
    mass : float array (level)
        How much of the weight has each level, from -32768 on; its sum is all the weight that may be removed.
    change : callable
        From a level to the change of the output when all weights up to this level are removed: one run of the model.
    budget : float
        The largest change.
    precision : float
        Of the share, relative to it, at which bisection ends.

    Returns
    -------
    Idle
        The level -32769, and a share of 0, where even the first removal exceeds the budget.

    Examples
    --------
    >>> mass = np.zeros(2**16)
    >>> mass[2**15 : 2**15 + 100] = 0.01  # a hundred weights
    >>> found = largest_within_budget(mass, lambda level: (level + 1) * 0.01, budget=0.305)
    >>> found.level, round(found.share, 2), found.change
    (29, 0.3, 0.3)
    """
    total = mass.cumsum() / mass.sum()
    levels = np.flatnonzero(mass) - LEVELS // 2
    within, beyond, runs = -1, len(levels), 0
    kept = Idle(-LEVELS // 2 - 1, 0.0, 0.0, 0)
    while beyond - within > 1:
        low = total[levels[within] + LEVELS // 2] if within >= 0 else 0.0
        high = total[levels[beyond] + LEVELS // 2] if beyond < len(levels) else 1.0
        if kept.share and high - low <= precision * high:
            break
        middle = np.searchsorted(total[levels + LEVELS // 2], (low + high) / 2)
        tried = int(np.clip(middle, within + 1, beyond - 1))
        level, runs = int(levels[tried]), runs + 1
        found = change(level)
        if found <= budget:
            within, kept = tried, Idle(level, float(total[level + LEVELS // 2]), found, 0)
        else:
            beyond = tried
    return kept._replace(runs=runs)
