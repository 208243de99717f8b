"""Alternative attention with the same output: the paper's, the sparsest and the farthest found, and a bound on the distance."""

import numpy as np

from identiformer.equations.arrays import floating
from identiformer.equations.certificates.feasible_set import FeasibleSet, Row
from identiformer.equations.certificates.linear_program import LinearProgram

STARTS = 3
STEPS = 12
COUPLED = 1e-6
"""Weights that can move by less are not constrained to one direction."""
NEGLIGIBLE = 1e-13
"""The size of rounding in an entry of a unit vector."""


@floating
def total_variation(first: Row, second: Row) -> float:
    """The total variation distance of two rows, ½Σ|a' - a|: the share of attention that moved."""
    return float(np.abs(first - second).sum() / 2)


def null_alternative(feasible: FeasibleSet) -> Row:
    """The paper's alternative a + λ_max·ã with ã in LN([T, 1]), the farthest over the vectors of a basis. §3.1, Eq. 7.

    λ_max = min over ã_i < 0 of -a_i/ã_i, where the first weight reaches zero.

    Parameters
    ----------
    feasible : FeasibleSet
        F_ε(a), from `feasible_sets`.

    Returns
    -------
    float64 array (key)
        Nonnegative, with the sum and the output of a to the rounding of float64; a itself where there is no alternative.

    Examples
    --------
    >>> import torch
    >>> from identiformer.equations import feasible_sets
    >>> values = torch.tensor([[0.0], [1.0], [2.0]])
    >>> _, _, feasible = next(feasible_sets(torch.tensor([[0.5, 0.3, 0.2]]), values, tolerance=0.0))
    >>> null_alternative(feasible).round(3)  # a + t·(1, -2, 1)
    array([0.3, 0.7, 0. ])
    """
    null = feasible.coordinates.null_space
    null = np.where(np.abs(null) > NEGLIGIBLE, null, 0.0)
    both = np.concatenate([null, -null], axis=1)
    if not both.size:
        return feasible.row
    with np.errstate(divide="ignore", invalid="ignore"):
        reach = np.where(both < 0, feasible.row[:, None] / -both, np.inf).min(0)
        if feasible.coordinates.sink:
            rise = both.sum(0)
            reach = np.minimum(reach, np.where(rise > NEGLIGIBLE, max(1 - feasible.row.sum(), 0) / rise, np.inf))
    length = np.where(np.isfinite(reach), reach, 0.0) * np.abs(both).sum(0)
    for index in (-length).argsort(kind="stable"):
        other = feasible.settle(feasible.row + reach[index] * both[:, index]) if length[index] > 0 else None
        if other is not None:
            return other
    return feasible.row


def sparsest_alternative(feasible: FeasibleSet) -> Row:
    """The row with the fewest keys that was found: a vertex of F_ε(a), with at most rank([T, 1]) keys (Carathéodory).

    Each step minimizes the weight on keys that the last vertex hardly uses.

    Parameters
    ----------
    feasible : FeasibleSet
        F_ε(a), from `feasible_sets`.

    Returns
    -------
    float64 array (key)

    Examples
    --------
    >>> import torch
    >>> from identiformer.equations import feasible_sets
    >>> values = torch.tensor([[0.0], [1.0], [2.0]])
    >>> _, _, feasible = next(feasible_sets(torch.tensor([[0.5, 0.3, 0.2]]), values, tolerance=0.0))
    >>> int((sparsest_alternative(feasible) > 0).sum())
    2
    """
    best = feasible.row if feasible.alone else None
    weights = feasible.row
    for _ in range(0 if feasible.alone else STEPS):
        point = feasible.vertex(-1 / (weights + 1e-3 / len(weights)))
        if point is None or (best is not None and (point > 0).sum() >= (best > 0).sum()):
            break
        best = weights = point
    return feasible.row if best is None else best


def farthest_alternative(feasible: FeasibleSet) -> Row:
    """The row with the largest total variation from a that was found; the true farthest may be farther.

    The distance is convex, so each step maximizes its linearization at the last point and cannot decrease it. The search
    starts from the farthest vertices that the solver has visited.

    Parameters
    ----------
    feasible : FeasibleSet
        F_ε(a), from `feasible_sets`.

    Returns
    -------
    float64 array (key)

    Examples
    --------
    >>> import torch
    >>> from identiformer.equations import feasible_sets
    >>> values = torch.tensor([[0.0], [1.0], [2.0]])
    >>> _, _, feasible = next(feasible_sets(torch.tensor([[0.5, 0.3, 0.2]]), values, tolerance=0.0))
    >>> round(total_variation(farthest_alternative(feasible), feasible.row), 3)
    0.3
    """
    if feasible.alone:
        return feasible.row
    if not feasible.solver.vertices:
        feasible.vertex(np.eye(len(feasible.row))[feasible.row.argmin()] - np.eye(len(feasible.row))[feasible.row.argmax()])
    starts = sorted(feasible.solver.vertices, key=lambda vertex: -total_variation(vertex, feasible.row))[:STARTS]
    best = feasible.row
    for point in starts:
        for _ in range(STEPS):
            following = feasible.vertex(np.sign(point - feasible.row))
            gain = -1.0 if following is None else total_variation(following, feasible.row) - total_variation(point, feasible.row)
            if following is None or gain <= 1e-9:
                break
            point = following
        best = max(best, point, key=lambda row: total_variation(row, feasible.row))
    return best


@floating
def total_variation_bound(feasible: FeasibleSet, low: Row, high: Row) -> float:
    """A certified upper bound on the total variation from a within F_ε(a).

    a' - a = p - q with p, q ≥ 0 and not both positive; the relaxation p_j/(high_j - a_j) + q_j/(a_j - low_j) ≤ 1 of the
    latter makes it a linear program, max Σp, bounded by its dual. `low` and `high` are certified bounds on the weights.
    """
    if feasible.fixed:
        return 0.0
    up, down = np.maximum(high - feasible.row, 0.0), np.maximum(feasible.row - low, 0.0)
    moves = feasible.moves
    coupled = np.flatnonzero((up > COUPLED) & (down > COUPLED))  # leaving the others out only widens the bound
    smaller = np.minimum(up, down)[coupled, None] * np.eye(len(up))[coupled]
    rows = np.block([[moves, -moves], [smaller / np.maximum(up, COUPLED), smaller / np.maximum(down, COUPLED)]])
    program = LinearProgram(rows, np.concatenate([up, down]))
    lower, upper = feasible.displacements(outer=True)
    most, zeros = np.minimum(up, down)[coupled], np.zeros(len(coupled))
    cost, margin = np.full(rows.shape[1], 0.5), np.append(feasible.margin, zeros)
    best = program.maximize(cost, np.append(lower, zeros), np.append(upper, most), margin)
    easy = min(feasible.largest_sum, float(np.maximum(up, down).sum()) / 2)
    return easy if best is None or not np.isfinite(best.bound) else min(best.bound, easy)
