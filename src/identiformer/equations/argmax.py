"""Is the key with the largest weight the largest in every row that gives the same output?"""

from dataclasses import dataclass

import numpy as np

from identiformer.equations.feasible_set import FeasibleSet, Row


@dataclass(frozen=True)
class ArgmaxVerdict:
    """Certified, refuted by a row at hand, or (neither) undecided."""

    argmax: int
    certified: bool
    rival: int | None = None
    row: Row | None = None
    """A row with the same output in which the rival outweighs the argmax."""


def certify_argmax(feasible: FeasibleSet, low: Row, high: Row) -> ArgmaxVerdict:
    """For each key k: max(a'_k - a'_j) < 0 over the outer set proves it, a row of the inner set with a'_k > a'_j refutes it.

    `low` and `high` are certain bounds on the weights where they are known, NaN elsewhere; they spare most programmes.
    """
    first = int(feasible.row.argmax())
    keys = len(feasible.row)
    for vertex in feasible.vertices:
        if vertex.argmax() != first and vertex.max() > vertex[first]:
            return _refuted(feasible, first, int(vertex.argmax()))
    least = low[first] if not np.isnan(low[first]) else feasible.interval(np.eye(keys)[first]).low
    total = float(feasible.row.sum()) if not feasible.coordinates.sink else 1.0
    most = np.minimum(np.where(np.isnan(high), total, high), total - least)
    for key in np.argsort(-feasible.row, kind="stable"):
        if key == first or most[key] < least:
            continue
        lead = np.eye(keys)[key] - np.eye(keys)[first]
        if feasible.bound(lead)[0] < 0:
            continue
        return _refuted(feasible, first, int(key)) if feasible.reach(lead)[0] > 0 else ArgmaxVerdict(first, False)
    return ArgmaxVerdict(first, True)


def _refuted(feasible: FeasibleSet, first: int, rival: int) -> ArgmaxVerdict:
    """Show the row in which the rival is furthest ahead among those met."""
    ahead = max(feasible.vertices, key=lambda vertex: vertex[rival] - vertex[first])
    return ArgmaxVerdict(first, False, rival, ahead)
