"""Is the key with the largest weight the largest in every row that gives the same output?"""

from dataclasses import dataclass

import numpy as np

from identiformer.equations.arrays import floating
from identiformer.equations.certificates.feasible_set import STILL, FeasibleSet, Row


@dataclass(frozen=True)
class ArgmaxVerdict:
    """Certified, refuted by a row at hand, or (neither) undecided."""

    argmax: int
    certified: bool
    rival: int | None = None
    row: Row | None = None
    """A row with the same output in which the rival outweighs the argmax."""


@floating
def certify_argmax(feasible: FeasibleSet, low: Row, high: Row) -> ArgmaxVerdict:
    """For each key k: max(a'_k - a'_j) < 0 over the outer set proves it, a row of the inner set with a'_k > a'_j refutes it.

    `low` and `high` are certain bounds on the weights where they are known, NaN elsewhere; they spare most programs.
    """
    first = int(feasible.row.argmax())
    keys = len(feasible.row)
    if feasible.fixed:
        return ArgmaxVerdict(first, bool((np.delete(feasible.row, first) < feasible.row[first] - 2 * STILL).all()))
    for vertex in feasible.vertices:
        if vertex.argmax() != first and vertex.max() > vertex[first]:
            return _refuted(feasible, first, int(vertex.argmax()))
    least = low[first] if not np.isnan(low[first]) else feasible.interval(np.eye(keys)[first]).low
    total = feasible.largest_sum
    most = np.minimum(np.where(np.isnan(high), total, high), total - least)
    most[first] = total
    leads = np.eye(keys) - np.eye(keys)[first]
    doubtful = np.flatnonzero((most >= least) & (np.arange(keys) != first))
    certified = True
    while len(doubtful):
        key = doubtful[feasible.row[doubtful].argmax()]
        doubtful = doubtful[doubtful != key]
        best = feasible.optimum(leads[key], outer=True)
        if best is not None and best.bound < 0:
            # What proves it for one key often proves it for others.
            doubtful = doubtful[feasible.bounds_by(best.multipliers, leads[doubtful], most) >= 0]
        elif feasible.reach(leads[key])[0] > 0:
            return _refuted(feasible, first, int(key))
        else:
            certified = False
    return ArgmaxVerdict(first, certified)


def _refuted(feasible: FeasibleSet, first: int, rival: int) -> ArgmaxVerdict:
    """Show the row in which the rival is furthest ahead among those met."""
    ahead = max(feasible.vertices, key=lambda vertex: vertex[rival] - vertex[first])
    return ArgmaxVerdict(first, False, rival, ahead)
