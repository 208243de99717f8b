"""Certified intervals of attention weights, and whether the largest weight is certified to be the largest. §3.1."""

from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor

from identiformer.equations.arrays import floating, moderate_size, same_kind
from identiformer.equations.attention.effective import Visible, check_rows, check_shapes
from identiformer.equations.attention.heads import projection_root
from identiformer.equations.attention.visibility import Visibility
from identiformer.equations.certificates.feasible_set import STILL, FeasibleSet, Row, Solver
from identiformer.equations.certificates.output_coordinates import AMBIGUOUS, OutputCoordinates
from identiformer.errors import InputError

SMALLEST_TOLERANCE = 1e-12
"""The rounding of float64 hides smaller ones."""


class WeightIntervals(NamedTuple):
    """Intervals of the weights of some rows; NaN where a key was not selected or is not visible."""

    low: Float64[Tensor, "query key"]
    high: Float64[Tensor, "query key"]
    low_reached: Float64[Tensor, "query key"]
    high_reached: Float64[Tensor, "query key"]
    confirmed: Bool[Tensor, "query key"]


@floating
def feasible_sets(
    weights: Float[Tensor, "query key"],
    values: Float[Tensor, "value_key width"],
    visible: Visible = None,
    *,
    tolerance: float,
    projection: Float[Tensor, "value_width model"] | None = None,
    sink: bool = False,
    precision: torch.dtype | None = None,
) -> Iterator[tuple[int, np.ndarray, FeasibleSet]]:
    """For each row of one head: its query, the keys that it sees, and F_ε(a) over those keys. §3.1.

    Rows that see the same keys follow one another and share a linear program.

    Parameters
    ----------
    weights, values, visible, projection, sink, precision
        As in `weight_intervals`.
    tolerance : float
        ε, as a share of the length of the output; 0 for exactly the same output.

    Yields
    ------
    query : int
    keys : int64 array (visible key)
    feasible : FeasibleSet

    Examples
    --------
    >>> sets = feasible_sets(torch.full((2, 3), 1 / 3), torch.eye(3), tolerance=1e-4)
    >>> [(query, feasible.dimension) for query, _, feasible in sets]
    [(0, 0), (1, 0)]
    """
    visibility, doubled, output = output_of_keys(weights, values, visible, tolerance, projection, sink)
    raw = weights.double().cpu().numpy()

    def rows() -> Iterator[tuple[int, np.ndarray, FeasibleSet]]:
        for queries, keys in visibility.patterns():
            coordinates = OutputCoordinates(doubled[keys], output[keys], precision or values.dtype, sink)
            for query in queries.tolist():
                solver = Solver(coordinates, exact=tolerance == 0)
                yield query, keys.numpy(), FeasibleSet(coordinates, raw[query, keys.numpy()], tolerance, solver)

    return rows()


def output_of_keys(
    weights: Float[Tensor, "query key"],
    values: Float[Tensor, "value_key width"],
    visible: Visible,
    tolerance: float,
    projection: Float[Tensor, "value_width model"] | None,
    sink: bool,
) -> tuple[Visibility, Float64[Tensor, "key width"], Float64[Tensor, "key width"]]:
    """The visibility of a head, the values whose rank counts, and those that measure changes of its output.

    The latter are projected; the former too where H discards directions. Raises where arguments do not fit each other.
    """
    if not 0 <= tolerance < 1:
        raise InputError(f"expected a tolerance from 0 to 1, as a share of the output's length, got {tolerance:g}.")
    if 0 < tolerance < SMALLEST_TOLERANCE:
        raise InputError(
            f"expected a tolerance of {SMALLEST_TOLERANCE:g} or more, which float64 resolves, got {tolerance:g}; use 0 for "
            "exactly the same output."
        )
    visibility = check_shapes(weights[None], values[None], visible)
    check_rows(weights[None], visibility, sink)
    if not bool((weights >= 0).all()):
        raise InputError("expected nonnegative weights, got negative ones; intervals are those of probabilities.")
    visibility = visibility.to(torch.device("cpu"))  # where the programs are solved
    doubled = moderate_size(values)[0].double().cpu()
    if projection is None:
        return visibility, doubled, doubled
    root = projection_root(moderate_size(projection[None])[0].cpu())[0]
    output, lengths = doubled @ root, root.norm(dim=0)
    lossy = bool(lengths.min() <= AMBIGUOUS * lengths.max())  # H discards some directions
    return visibility, output if lossy else doubled, output


@same_kind
def weight_intervals(
    weights: Float[Tensor, "query key"],
    values: Float[Tensor, "value_key width"],
    visible: Visible = None,
    *,
    tolerance: float = 1e-4,
    keys: Sequence[int] | None = None,
    projection: Float[Tensor, "value_width model"] | None = None,
    sink: bool = False,
    precision: torch.dtype | None = None,
) -> WeightIntervals:
    """Certified bounds on each weight of one head over all attention with the same output: ‖(a' - a)VH‖ ≤ ε‖aVH‖. §3.1.

    [low, high] is certified: no such row leaves it, except by the 1e-9 below which weights count as fixed. Known rows reach
    [low_reached, high_reached]. The two differ where directions of V have less than 1e-8 of its size: exactness is a matter
    of rounding there, and certified bounds do not rely on it.

    Parameters
    ----------
    weights : float array (query key)
        A, of one head.
    values : float array (key width)
        V with its bias.
    visible : Visibility or bool array (query key), optional
        The keys that each query sees; all by default.
    tolerance : float
        ε, 1e-12 or more; 0 for the same output to 64·max(n, d_v) roundings of float64, with V cut at its numerical rank.
    keys : sequence of int, optional
        Only these keys.
    projection : float array (width model), optional
        H, the head's slice of the output projection; without it lengths are those of V.
    sink : bool
        Whether rows may sum to anything up to one, because a learned sink takes the rest.
    precision : torch.dtype, optional
        The dtype in which V was computed, if it was converted since.

    Returns
    -------
    WeightIntervals
        `low`, `high`, `low_reached`, `high_reached` and `confirmed`, each over (query key).

    Examples
    --------
    >>> values = torch.tensor([[0.0], [1.0], [2.0]])
    >>> bounds = weight_intervals(torch.tensor([[0.5, 0.3, 0.2]]), values, tolerance=0.0)  # a + t·(1, -2, 1) has the same output
    >>> bounds.low, bounds.high
    (tensor([[0.3000, 0.0000, 0.0000]], dtype=torch.float64), tensor([[0.6500, 0.7000, 0.3500]], dtype=torch.float64))
    """
    count = weights.shape[-1]
    wrong = [key for key in keys or () if not 0 <= key < count]
    if wrong:
        raise InputError(f"expected keys from 0 to {count - 1}, got {wrong[0]}.")
    selected = np.isin(np.arange(count), range(count) if keys is None else keys)
    intervals = np.full((5, *weights.shape), np.nan)
    options = {"tolerance": tolerance, "projection": projection, "sink": sink, "precision": precision}
    for query, visible_keys, feasible in feasible_sets(weights, values, visible, **options):
        for index in np.flatnonzero(selected[visible_keys]).tolist():
            cost = np.eye(1, len(visible_keys), index)[0]
            intervals[:, query, visible_keys[index]] = astuple(feasible.interval(cost))
    low, high, low_reached, high_reached, confirmed = torch.from_numpy(intervals)
    return WeightIntervals(low, high, low_reached, high_reached, confirmed == 1)


@dataclass(frozen=True)
class ArgmaxVerdict:
    """Certified, refuted by a known row, or (neither) undecided."""

    argmax: int
    certified: bool
    rival: int | None = None
    row: Row | None = None
    """A row with the same output in which the rival outweighs the argmax."""


@floating
def certify_argmax(feasible: FeasibleSet, low: Row, high: Row) -> ArgmaxVerdict:
    """Whether the key j with the largest weight has the largest weight in every row of F_ε(a). §3.1.

    For each other key k, max(a'_k - a'_j) < 0 over the outer set proves it, and a row with a'_k > a'_j refutes it.

    Parameters
    ----------
    feasible : FeasibleSet
        F_ε(a), from `feasible_sets`.
    low, high : float64 arrays (key)
        Certified bounds on the weights, NaN where unknown; they make most linear programs unnecessary.

    Returns
    -------
    ArgmaxVerdict
        `argmax`, `certified`, and, where refuted, the `rival` and a `row` in which it is larger.

    Examples
    --------
    >>> values = torch.tensor([[0.0], [1.0], [2.0]])
    >>> _, _, feasible = next(feasible_sets(torch.tensor([[0.5, 0.3, 0.2]]), values, tolerance=0.0))
    >>> verdict = certify_argmax(feasible, np.full(3, np.nan), np.full(3, np.nan))
    >>> verdict.certified, verdict.rival
    (False, 1)
    """
    first = int(feasible.row.argmax())
    keys = len(feasible.row)
    if feasible.fixed:
        return ArgmaxVerdict(first, bool((np.delete(feasible.row, first) < feasible.row[first] - 2 * STILL).all()))
    for vertex in feasible.solver.vertices:
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
        # The multipliers that prove it for one key often prove it for others.
        bounds = None if best is None else feasible.bounds_by(best.multipliers, leads[[key, *doubtful]], most)
        if bounds is not None and bounds[0] < 0:
            doubtful = doubtful[bounds[1:] >= 0]
        elif feasible.reach(leads[key])[0] > 0:
            return _refuted(feasible, first, int(key))
        else:
            certified = False
    return ArgmaxVerdict(first, certified)


def _refuted(feasible: FeasibleSet, first: int, rival: int) -> ArgmaxVerdict:
    """The verdict with the visited vertex in which the rival leads most."""
    ahead = max(feasible.solver.vertices, key=lambda vertex: vertex[rival] - vertex[first])
    return ArgmaxVerdict(first, False, rival, ahead)
