"""Certified bounds on every weight of a head, from far fewer linear programs than weights.

The multipliers that prove a bound on a weight of one row prove one for the same key in every row of the head, by one matrix
product (weak duality holds for any row): they screen, and only what they leave open is solved. A row that sees fewer keys
is a row in which the others cannot have weight, so the multipliers of a long causal prefix serve shorter ones.

Programs have a box in place of the ball ‖(a' - a)VH‖ ≤ ε‖aVH‖; the bounds that their multipliers prove hold for the ball itself,
and are a little tighter.
"""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor

from identiformer.equations.arrays import same_kind
from identiformer.equations.attention.effective import Visible
from identiformer.equations.certificates.feasible_set import FeasibleSet, Solver
from identiformer.equations.certificates.intervals import output_of_keys
from identiformer.equations.certificates.linear_program import Optimum, dual_bound
from identiformer.equations.certificates.output_coordinates import OutputCoordinates
from identiformer.errors import InputError

Map = Float64[np.ndarray, "query key"]

GAP = 0.02
"""How much less of a row's weight may be certified than by solving every program."""
UPPER_ROWS = 2
"""For how many rows the upper bound of each key is solved; the others are screened."""
COMMON_WEIGHT = 0.01
"""In the first program of a row, keys of much less weight count alike."""


class MapBounds(NamedTuple):
    """Certified bounds on the weights of one head; NaN where a key is not visible."""

    low: Float64[Tensor, "query key"]
    high: Float64[Tensor, "query key"]
    """No row with the same output leaves [low, high]."""
    low_solved: Bool[Tensor, "query key"]
    high_solved: Bool[Tensor, "query key"]
    """Whether the bound is the optimum of its own linear program, or was screened."""


@same_kind
def map_bounds(
    weights: Float[Tensor, "query key"],
    values: Float[Tensor, "value_key width"],
    visible: Visible = None,
    *,
    tolerance: float = 1e-4,
    gap: float = GAP,
    upper: bool = True,
    projection: Float[Tensor, "value_width model"] | None = None,
    sink: bool = False,
    precision: torch.dtype | None = None,
) -> MapBounds:
    """Certified bounds on every weight of one head over all attention with the same output: ‖(a' - a)VH‖ ≤ ε‖aVH‖. §3.1.

    Lower bounds are solved until, in every row, solving the others would raise their sum by no more than `gap`. Upper bounds
    are solved in two rows per key, and screened in the others. `weight_intervals` solves every bound.

    Parameters
    ----------
    weights, values, visible, projection, sink, precision
        As in `weight_intervals`.
    tolerance : float
        ε, from 1e-12 to 1, as a share of the length of the output.
    gap : float
        How much less of a row's weight may be certified than by solving every program.
    upper : bool
        Whether to solve upper bounds, a third of the work. Otherwise they are what the lower bounds of other keys leave.

    Returns
    -------
    MapBounds
        `low`, `high`, `low_solved` and `high_solved`, each over (query, key).

    Examples
    --------
    >>> values = torch.tensor([[0.0], [1.0], [2.0]])
    >>> bounds = map_bounds(torch.tensor([[0.5, 0.3, 0.2]]), values, tolerance=1e-9)  # a + t·(1, -2, 1) has the same output
    >>> bounds.low.numpy().round(3), bounds.high.numpy().round(3)
    (array([[0.3, 0. , 0. ]]), array([[0.65, 0.7 , 0.35]]))
    """
    if tolerance <= 0:
        raise InputError(f"expected a tolerance above 0 to bound a whole map, got {tolerance:g}; use weight_intervals for 0.")
    if not 0 <= gap <= 1:
        raise InputError(f"expected a gap from 0 to 1, as a share of a row's weight, got {gap:g}.")
    visibility, doubled, output = output_of_keys(weights, values, visible, tolerance, projection, sink)
    coordinates = OutputCoordinates(doubled, output, precision or values.dtype, sink)
    mask = visibility.dense().numpy()
    search = _Search(coordinates, weights.double().cpu().numpy(), mask, tolerance)
    search.solve_low(gap)
    search.solve_high(UPPER_ROWS if upper else 0)
    low, high = (torch.from_numpy(np.where(mask, bound, np.nan)) for bound in (search.low, search.high))
    return MapBounds(low, high, torch.from_numpy(search.low_solved), torch.from_numpy(search.high_solved))


class _Search:
    """Bounds of a head's weights, improved by one program after another."""

    def __init__(self, coordinates: OutputCoordinates, rows: Map, mask: Bool[np.ndarray, "query key"], tolerance: float) -> None:
        self.rows, self.mask, self.program = rows, mask, coordinates.program
        sets = [FeasibleSet(coordinates, row, tolerance, Solver(coordinates, exact=False)) for row in rows]
        self.margin = np.stack([each.margin for each in sets])
        self.lower, self.upper = np.stack([each.box(outer=True) for each in sets], 1)
        self.least, self.largest, self.radii = (np.stack(bounds) for bounds in zip(*(each.ball for each in sets), strict=True))
        self.total = np.array([each.largest_sum for each in sets])
        self.most = self.program.ceiling * mask
        self.low = np.zeros_like(rows)
        self.known = rows.copy()
        """The smallest weight of each key in known points of its row's program: no program certifies more."""
        self.low_solved, self.high_solved = np.zeros((2, *rows.shape), bool)
        self.high = np.broadcast_to(self.total[:, None], rows.shape).copy()

    def solve_low(self, gap: float) -> None:
        """Raise lower bounds until at most `gap` of each row is undecided.

        Rows with many keys come first, because their multipliers also bound other rows.
        """
        for query in np.argsort(-self.mask.sum(1), kind="stable").tolist():
            self._invert(query)
            scattered = False
            while (left := self._open(query)).sum() > gap:
                if not scattered:  # a vertex without weight on most keys shows that nothing of these can be certified
                    scattered = True
                    self._solve(query, np.where(left > 0, -1 / (1 + self.rows[query] / COMMON_WEIGHT), 0.0))
                    continue
                key = int(left.argmax())
                best = self._solve(query, -np.eye(1, len(left), key)[0])
                self.low_solved[query, key] = True
                if best is not None:
                    np.maximum(self.low[:, key], -self._bounds(-1.0, key, best), out=self.low[:, key])

    def _invert(self, query: int) -> None:
        """If a row has no more keys than constraints, these may determine it: use their pseudoinverse as multipliers."""
        keys = np.flatnonzero(self.mask[query])
        if len(keys) > len(self.program.rows):
            return
        multipliers = -np.linalg.pinv(self.program.rows[:, keys])
        costs = -np.eye(self.rows.shape[1])[keys]
        box = (self.least[query], self.largest[query])
        bounds = np.asarray(dual_bound(costs, self.program.rows, *box, self.most[query], multipliers, self.radii[query]))
        self.low[query, keys] = np.maximum(self.low[query, keys], -bounds)

    def solve_high(self, viewers: int) -> None:
        """Lower upper bounds by what the other keys keep, and by the multipliers of a few rows that see each key."""
        np.minimum(self.high, self.total[:, None] - (self.low.sum(1, keepdims=True) - self.low), out=self.high)
        programs = [(query, key) for key in range(self.rows.shape[1]) for query in self._viewers(key, viewers)]
        for query, key in sorted(programs):
            best = self._solve(query, np.eye(1, self.rows.shape[1], key)[0])
            if best is not None:
                self.high_solved[query, key] = True
                np.minimum(self.high[:, key], self._bounds(1.0, key, best), out=self.high[:, key])

    def _viewers(self, key: int, count: int) -> set[int]:
        """Some of the rows that see a key, at equal distances when ordered by how many keys they see, and the last of them."""
        viewers = np.flatnonzero(self.mask[:, key])
        viewers = viewers[np.argsort(self.mask[viewers].sum(1), kind="stable")]
        steps = range(1, count + 1) if len(viewers) else ()
        return {int(viewers[(len(viewers) - 1) * step // count]) for step in steps}

    def _open(self, query: int) -> Float64[np.ndarray, " key"]:
        """How much more of each weight might be certified."""
        return np.where(self.low_solved[query], 0.0, np.maximum(self.known[query] - self.low[query], 0.0))

    def _solve(self, query: int, cost: Float64[np.ndarray, " key"]) -> Optimum | None:
        self.program.limit(self.most[query])
        best = self.program.maximize(cost, self.lower[query], self.upper[query], self.margin[query])
        if best is not None:
            np.minimum(self.known[query], np.maximum(best.point, 0.0), out=self.known[query])
        return best

    def _bounds(self, sign: float, key: int, best: Optimum) -> Float64[np.ndarray, " query"]:
        """Certified upper bounds on ±a'_key in every row, by one program's multipliers."""
        cost = sign * np.eye(1, self.rows.shape[1], key)[0]
        return np.asarray(dual_bound(cost, self.program.rows, self.least, self.largest, self.most, best.multipliers, self.radii))
