"""Other rows of attention with the same output: the paper's, the sparsest and the farthest found, and how far is too far."""

import numpy as np

from identiformer.equations.arrays import floating
from identiformer.equations.certificates.feasible_set import FeasibleSet, Row
from identiformer.equations.certificates.linear_program import LinearProgram

STARTS = 3
STEPS = 12
COUPLED = 1e-6
"""Weights that can move less than this are not told apart by direction."""
NOTHING = 1e-13
"""What a vector of length one has on a key by rounding."""


@floating
def total_variation(first: Row, second: Row) -> float:
    """½Σ|a' - a|: the share of attention that moved."""
    return float(np.abs(first - second).sum() / 2)


def null_alternative(feasible: FeasibleSet) -> Row:
    """The paper's alternative a + λ_max·ã, ã in LN([T, 1]): the farthest along a vector of a basis of it. §3.1, Eq. 7.

    λ_max = min over ã_i < 0 of -a_i/ã_i, where the first weight reaches zero. The row is not negative, sums as a does and has
    its output, to the rounding of float64; it is a itself where no such vector leads to another.
    """
    null = feasible.coordinates.null_space
    null = np.where(np.abs(null) > NOTHING, null, 0.0)
    both = np.concatenate([null, -null], axis=1)
    if not both.size:
        return feasible.row
    with np.errstate(divide="ignore", invalid="ignore"):
        reach = np.where(both < 0, feasible.row[:, None] / -both, np.inf).min(0)
        if feasible.coordinates.sink:
            rise = both.sum(0)
            reach = np.minimum(reach, np.where(rise > NOTHING, max(1 - feasible.row.sum(), 0) / rise, np.inf))
    length = np.where(np.isfinite(reach), reach, 0.0) * np.abs(both).sum(0)
    for place in (-length).argsort(kind="stable"):
        other = feasible.settle(feasible.row + reach[place] * both[:, place]) if length[place] > 0 else None
        if other is not None:
            return other
    return feasible.row


def sparsest_alternative(feasible: FeasibleSet) -> Row:
    """The row with fewest keys that was found: a vertex, which has at most rank([T, 1]) of them (Carathéodory).

    Each step asks for the vertex that has least on keys that the last one hardly uses.
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
    """The row with the largest total variation from a that was found.

    Distance is convex, so each step maximizes its linear part at the last point and cannot come nearer; it starts from the
    farthest vertices met so far. The true farthest may be farther.
    """
    if feasible.alone:
        return feasible.row
    if not feasible.vertices:
        feasible.vertex(np.eye(len(feasible.row))[feasible.row.argmin()] - np.eye(len(feasible.row))[feasible.row.argmax()])
    starts = sorted(feasible.vertices, key=lambda vertex: -total_variation(vertex, feasible.row))[:STARTS]
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
    """What the total variation from a cannot exceed while the output stays, given certain bounds on the weights.

    a' - a = p - q with p, q ≥ 0 and not both positive; the best of max Σp over p_j/(high_j - a_j) + q_j/(a_j - low_j) ≤ 1,
    which asks a little less than that. Proved by its dual.
    """
    if feasible.fixed:
        return 0.0
    up, down = np.maximum(high - feasible.row, 0.0), np.maximum(feasible.row - low, 0.0)
    moves = feasible.moves
    coupled = np.flatnonzero((up > COUPLED) & (down > COUPLED))  # the others may do both, which only widens the bound
    less = np.minimum(up, down)[coupled, None] * np.eye(len(up))[coupled]
    rows = np.block([[moves, -moves], [less / np.maximum(up, COUPLED), less / np.maximum(down, COUPLED)]])
    program = LinearProgram(rows, np.concatenate([up, down]))
    lower, upper = feasible.displacements(outer=True)
    most = np.minimum(up, down)[coupled]
    nothing = np.zeros(len(coupled))
    program.confine(np.append(lower, nothing), np.append(upper, most), np.append(feasible.margin, nothing))
    best = program.maximize(np.full(rows.shape[1], 0.5))
    easy = min(feasible.largest_sum, float(np.maximum(up, down).sum()) / 2)
    return easy if best is None or not np.isfinite(best.bound) else min(best.bound, easy)
