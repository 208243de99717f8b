"""The rows of attention with the same output, and certified bounds on how far each weight can move among them.

F_ε(a) = {a' ≥ 0 : Σa' = Σa, ‖(a' - a)T‖ ≤ ε‖aT‖}, with Σa' ≤ 1 in place of Σa' = Σa where a learned sink takes the rest.

In orthonormal coordinates of the output, T = UΣX^T, the change of output is z = (a' - a)UΣ. The box |z_k| ≤ ε‖aT‖ contains the
ball, so bounds over this outer set are certified; the box |z_k| ≤ ε‖aT‖/√r is contained in the ball, so points of this inner
set are reached. Both are polyhedra. The multipliers that bound the outer set also bound the ball inside it, more tightly.

At tolerance zero the output is the same to the rounding of float64, and both sets are the rows that do not change it. Then
directions that the values hardly fill are free in the outer set: exactness is a matter of rounding there, and a bound that
holds without a constraint holds with it. Certified bounds allow for the rounding of everything that went into them.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64

from identiformer.equations.certificates.linear_program import LinearProgram, Optimum, dual_bound
from identiformer.equations.certificates.output_coordinates import EPSILON, OutputCoordinates

Row = Float64[np.ndarray, " key"]

CONFIRMED = 1e-7
"""A bound is confirmed when it differs by no more from a point of its set."""

STILL = 1e-9
"""Weights that cannot move by more count as fixed."""

VACUOUS = 2.0  # no two rows are further apart along a unit vector


@dataclass(frozen=True)
class Interval:
    """Where a weight, or the sum of some, can be while the output stays the same."""

    low: float
    high: float
    """Certified: no row of the outer set leaves [low, high]."""
    low_reached: float
    high_reached: float
    """Reached by rows of the inner set."""
    confirmed: bool
    """Whether every program was solved to optimality: a point of its set attains the optimum that its dual proves."""


class Ball(NamedTuple):
    """Rows whose constrained functions leave the box [least, largest] by a vector of the ellipsoid with semi-axes `radii`."""

    least: Float64[np.ndarray, " row"]
    largest: Float64[np.ndarray, " row"]
    radii: Float64[np.ndarray, " row"]


@dataclass(eq=False)
class Solver:
    """The solver state of one feasible set.

    Rows that see the same keys share one linear program, which starts each search from the vertex of the last.
    """

    coordinates: OutputCoordinates
    exact: bool
    vertices: list[Row] = field(default_factory=list)
    """Vertices of the inner set visited so far."""
    last: tuple[tuple[bool, bytes], Optimum | None] | None = None
    """The last objective, with whether it was over the outer set, and its optimum."""

    @property
    def program(self) -> LinearProgram:
        return self.coordinates.exact_program if self.exact else self.coordinates.program


@dataclass(frozen=True, eq=False)
class FeasibleSet:
    """F_ε(a): the rows of attention whose output differs from that of row a by at most ε of its length. §3.1.

    Parameters
    ----------
    coordinates : OutputCoordinates
        T = VH of the keys that the row sees, in orthonormal coordinates.
    row : float64 array (key)
        a, the weights of those keys.
    tolerance : float
        ε, as a share of ‖aT‖; 0 for exactly the same output.
    solver : Solver
        Holds everything that changes: the linear program, and the vertices that it visits.

    Examples
    --------
    >>> import torch
    >>> from identiformer.equations import feasible_sets
    >>> values = torch.tensor([[0.0], [1.0], [2.0]])
    >>> _, _, feasible = next(feasible_sets(torch.tensor([[0.5, 0.3, 0.2]]), values, tolerance=0.0))
    >>> feasible.dimension, round(feasible.interval(np.array([1.0, 0.0, 0.0])).high, 3)
    (1, 0.65)
    """

    coordinates: OutputCoordinates
    row: Row
    tolerance: float
    solver: Solver

    @property
    def _exact(self) -> bool:
        return self.tolerance == 0

    @cached_property
    def _sum(self) -> tuple[float, float]:
        total = float(self.row.sum())
        return (0.0, max(total, 1.0)) if self.coordinates.sink else (total, total)

    @property
    def _sum_rounding(self) -> float:
        return 4 * (len(self.row) + 1) * EPSILON

    @property
    def moves(self) -> Float64[np.ndarray, "row key"]:
        """The constrained functions of a change a' - a: its output coordinates, and last its sum."""
        return self.solver.program.rows

    @property
    def largest_sum(self) -> float:
        """The largest sum of a row."""
        return self._sum[1] + self._sum_rounding

    @cached_property
    def output_norm(self) -> float:
        return float(np.linalg.norm(self.row @ self.coordinates.output))

    @cached_property
    def per_weight(self) -> Row:
        """g_j = ⟨t_j, o⟩/‖o‖²: what a unit of weight on each key contributes to the output o = aT."""
        output = self.row @ self.coordinates.output / self.output_norm
        return self.coordinates.output @ output / self.output_norm

    @cached_property
    def relative_length(self) -> Row:
        """‖t_j‖/‖o‖."""
        return np.linalg.norm(self.coordinates.output, axis=1) / self.output_norm

    @cached_property
    def fixed(self) -> bool:
        """Whether nothing can move: exact, without null directions, and without directions that the output hardly depends on."""
        return self.alone and bool(np.linalg.norm(self.margin) <= STILL)

    @cached_property
    def alone(self) -> bool:
        """Whether the set has only this row: the output must be exactly the same, and there are no null directions."""
        return self._exact and not self.coordinates.null_space.size

    @cached_property
    def dimension(self) -> int:
        """The dimension of the set of rows with exactly this output; keys of weight zero count where their weight can rise."""
        support = self.row > 0
        exact = FeasibleSet(self.coordinates, self.row, 0.0, Solver(self.coordinates, exact=True))
        while not support.all() and not exact.alone:
            best = exact.optimum((~support).astype(np.float64), outer=False)
            if best is None or best.value <= CONFIRMED:
                break
            support |= best.point > CONFIRMED / len(support)
        return self.coordinates.dimension(support)

    def displacements(self, outer: bool) -> tuple[Float64[np.ndarray, " row"], Float64[np.ndarray, " row"]]:
        """Bounds on a' - a along each output coordinate, and last on its sum."""
        if self._exact:
            half = np.where(outer & self.coordinates.exact.ambiguous, VACUOUS, 0.0)
        else:
            sigma = self.coordinates.sigma
            change = self.tolerance * self.output_norm / (1.0 if outer else np.sqrt(len(sigma)))
            free = (sigma * VACUOUS <= change) | (outer & (sigma <= self.coordinates.noise))
            half = np.where(free, VACUOUS, change / np.where(free, 1.0, sigma))
        least, most = self._sum
        total = self.row.sum()
        return np.append(-half, least - total), np.append(half, most - total)

    @cached_property
    def margin(self) -> Float64[np.ndarray, " row"]:
        """How much rounding widens those bounds: that of the output, of T = UΣX^T, and of the center of the box."""
        sigma, rounding = self.coordinates.exact[1:3] if self._exact else (self.coordinates.sigma, self.coordinates.rounding)
        along = VACUOUS * rounding / np.maximum(sigma, rounding or 1.0)  # twice the rounding over σ, or vacuous
        return np.append(along, 0.0) + self._sum_rounding

    @cached_property
    def ball(self) -> Ball:
        """F_ε(a) between its box and the ball, for `dual_bound`."""
        lower, upper = self.box(outer=True)
        half = (upper - lower) / 2
        in_ball = half < VACUOUS
        in_ball[-1] = False  # the sum
        radii = np.where(in_ball, half, 0.0)
        return Ball(lower + radii - self.margin, upper - radii + self.margin, radii)

    def box(self, outer: bool) -> tuple[Float64[np.ndarray, " row"], Float64[np.ndarray, " row"]]:
        """Bounds on the constrained functions of a' itself."""
        center = self.moves @ self.row
        down, up = self.displacements(outer)
        return center + down, center + up

    def optimum(self, cost: Row, outer: bool) -> Optimum | None:
        """The largest c·a' over the outer or the inner set; solved once where they are the same set."""
        same_set = self._exact and not self.coordinates.exact.ambiguous.any()
        objective, solver = (outer and not same_set, cost.tobytes()), self.solver
        if solver.last is None or solver.last[0] != objective:
            solver.last = (objective, solver.program.maximize(cost, *self.box(outer), self.margin))
        best = solver.last[1]
        if outer and self._exact and best is not None and not best.bound - best.value <= CONFIRMED:
            # Rounding loosens the bound: the multipliers of the set widened by its margin may prove a better one.
            lower, upper = self.box(outer=True)
            other = solver.program.maximize(cost, lower - self.margin, upper + self.margin)
            return best if other is None or not other.bound < best.bound else other
        return best

    def bounds_by(
        self, multipliers: Float64[np.ndarray, " row"], costs: Float64[np.ndarray, "cost key"], most: Row
    ) -> Float64[np.ndarray, " cost"]:
        """Certified upper bounds on each c·a' by one program's multipliers, where a' ≤ most is already certified."""
        ball = self.ball
        return np.asarray(dual_bound(costs, self.moves, ball.least, ball.largest, most, multipliers, ball.radii))

    def vertex(self, cost: Row) -> Row | None:
        """A vertex of the inner set with the largest c·a', which the solver remembers; None where rounding puts it outside."""
        return self._keep(self.optimum(cost, outer=False))

    def bound(self, cost: Row) -> tuple[float, bool]:
        """A certified upper bound on c·a', and whether its program was solved to optimality."""
        if self.fixed:
            return float(cost @ self.row), True
        outer = self.optimum(cost, outer=True)
        trivial = float(max(cost.max() * total for total in (self._sum[0], self.largest_sum)))
        if outer is None or not np.isfinite(outer.bound):
            return trivial, False
        in_ball = float(self.bounds_by(outer.multipliers, cost[None], self.solver.program.ceiling)[0])
        return min(outer.bound, in_ball, trivial), outer.bound - outer.value <= CONFIRMED

    def reach(self, cost: Row) -> tuple[float, bool]:
        """The largest c·a' of a known row, and whether no row of the inner set has a larger one."""
        current = float(cost @ self.row)
        if self.alone:
            return current, True
        inner = self.optimum(cost, outer=False)
        point = self._keep(inner)
        reached = current if point is None else max(current, float(cost @ point))
        return reached, inner is not None and abs(reached - inner.value) <= CONFIRMED

    def interval(self, cost: Row) -> Interval:
        """The interval of c·a', where c is 1 on the keys of interest and 0 elsewhere."""
        (high_reached, top), (high, tight_top) = self.reach(cost), self.bound(cost)
        if any(cost @ vertex == 0 for vertex in self.solver.vertices):  # no weight is smaller than 0
            return Interval(0.0, high, 0.0, high_reached, top and tight_top)
        (low_reached, bottom), (low, tight_bottom) = self.reach(-cost), self.bound(-cost)
        confirmed = top and tight_top and bottom and tight_bottom
        return Interval(max(0.0, -low), high, max(0.0, -low_reached), high_reached, confirmed)

    def change(self, point: Row) -> float:
        """The change of the output at another row, relative to its length."""
        return float(np.linalg.norm((point - self.row) @ self.coordinates.output)) / (self.output_norm or 1.0)

    def _keep(self, optimum: Optimum | None) -> Row | None:
        if optimum is None:
            return None
        point = self.settle(optimum.point)
        if point is not None:
            self.solver.vertices.append(point)
        return point

    def settle(self, point: Row) -> Row | None:
        """The row of the set next to a point that misses it by a little rounding; None where it misses by more.

        A point that changes the output by too much is moved toward a; at tolerance zero its weights are adjusted.
        """
        settled = self._clean(point)
        for _ in range(2):
            if self.holds(settled):
                return settled
            settled = self._clean(self._adjusted(settled) if self._exact else self._nearer(settled))
        return settled if self.holds(settled) else None

    def _nearer(self, point: Row) -> Row:
        moved, allowed = self._moved(point)
        return self.row + min(1.0, (1 - EPSILON) * allowed / moved) * (point - self.row)

    def _adjusted(self, point: Row) -> Row:
        """The point with the smallest change of its positive weights that restores the output and the sum of a."""
        support = point > 0
        constraints, missing = self.moves[:, support], self.moves @ (self.row - point)
        if self.coordinates.sink:
            constraints, missing = constraints[:-1], missing[:-1]
        adjusted = point.copy()
        adjusted[support] += np.linalg.lstsq(constraints, missing, rcond=None)[0]
        return adjusted

    def _clean(self, point: Row) -> Row:
        """The point without negative weights and without weights of the size of rounding, scaled to an allowed sum."""
        positive = np.where(point > 4 * EPSILON, point, 0.0)
        least, most = self._sum
        total = positive.sum()
        return positive * (np.clip(total, least, most) / total) if total else positive

    def holds(self, point: Row) -> bool:
        """Whether a row is in F_ε(a), to the rounding of float64; at tolerance zero for the values cut at their rank."""
        (moved, allowed), (least, most) = self._moved(point), self._sum
        slack = self._sum_rounding
        return bool(moved <= allowed and (point >= 0).all() and least - slack <= point.sum() <= most + slack)

    def _moved(self, point: Row) -> tuple[float, float]:
        """The change of the output at a row, and the largest change allowed."""
        if not self._exact:
            moved = np.linalg.norm((point - self.row) @ self.coordinates.output)
            return float(moved), self.tolerance * self.output_norm + self.coordinates.rounding
        directions, sigma, rounding, _ = self.coordinates.exact
        return float(np.linalg.norm((point - self.row) @ directions * sigma)), rounding
