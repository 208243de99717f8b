"""The rows of attention that give the same output: how far each weight can move among them, proved on both sides.

F_ε(a) = {a' ≥ 0 : Σa' = Σa, ‖(a' - a)T‖ ≤ ε‖aT‖}, and Σa' ≤ 1 in place of Σa' = Σa where a learned sink takes the rest.

In orthonormal coordinates of the output, T = UΣX^T, the change of output is z = (a' - a)UΣ. The box |z_k| ≤ ε‖aT‖ holds the
ball, so what holds in this outer set is certain; the box |z_k| ≤ ε‖aT‖/√r lies within the ball, so what is found in this
inner set can be reached. Both are polyhedra.

Without a tolerance the output is the same to the rounding of float64, and both sets are the rows that do not change it. Then
directions that the values hardly fill are free in the outer set: exactness is a matter of rounding there, and bounds that
hold without a constraint hold with it. Whatever is proved allows for the rounding of everything that went into it.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from jaxtyping import Float64

from identiformer.equations.certificates.linear_program import LinearProgram, Optimum, dual_bound
from identiformer.equations.certificates.output_coordinates import EPSILON, OutputCoordinates

Row = Float64[np.ndarray, " key"]

CONFIRMED = 1e-7
"""A bound is confirmed when the point that reaches it and the multipliers that prove it differ by no more."""

STILL = 1e-9
"""Weights that cannot move by more do not move."""

VACUOUS = 2.0  # no two rows are further apart along a unit vector


@dataclass(frozen=True)
class Interval:
    """Where a weight, or the sum of some, can lie while the output stays."""

    low: float
    high: float
    """Proved: no row of the outer set leaves [low, high]."""
    low_reached: float
    high_reached: float
    """Shown: rows of the inner set that are at hand reach these."""
    confirmed: bool
    """Whether each bound is met by a point of its own set, so that it is the true one there."""


@dataclass
class FeasibleSet:
    """F_ε(a) of one row; remembers the vertices of the inner set that it has met."""

    coordinates: OutputCoordinates
    row: Row
    tolerance: float
    vertices: list[Row] = field(default_factory=list)
    _last: tuple[tuple[bool, bytes], Optimum | None] | None = None

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
    def _program(self) -> LinearProgram:
        return self.coordinates.exact_program if self._exact else self.coordinates.program

    @property
    def moves(self) -> Float64[np.ndarray, "row key"]:
        """What is told of a change a' - a: its output coordinates, and last its sum."""
        return self._program.rows

    @property
    def largest_sum(self) -> float:
        """What a row may sum to at most."""
        return self._sum[1] + self._sum_rounding

    @cached_property
    def output_norm(self) -> float:
        return float(np.linalg.norm(self.row @ self.coordinates.output))

    @cached_property
    def fixed(self) -> bool:
        """Whether nothing can move: no tolerance, no direction that output and sum do not see, and none that they hardly see."""
        return self.alone and bool(np.linalg.norm(self.margin) <= STILL)

    @cached_property
    def alone(self) -> bool:
        """Whether no other row is known to have exactly this output."""
        return self._exact and not self.coordinates.null_space.size

    @cached_property
    def dimension(self) -> int:
        """The dimension of the rows with exactly this output; keys of weight zero count where their weight can rise."""
        support = self.row > 0
        exact = FeasibleSet(self.coordinates, self.row, 0.0)
        while not support.all() and not exact.alone:
            best = exact.optimum((~support).astype(np.float64), outer=False)
            if best is None or best.value <= CONFIRMED:
                break
            support |= best.point > CONFIRMED / len(support)
        return self.coordinates.dimension(support)

    def displacements(self, outer: bool) -> tuple[Float64[np.ndarray, " row"], Float64[np.ndarray, " row"]]:
        """How far a' - a may go, down and up, along each output coordinate and in its sum."""
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
        """How much farther a' - a may go because of rounding: that of its output, of T = UΣX^T, and of the box's center."""
        sigma, rounding = self.coordinates.exact[1:3] if self._exact else (self.coordinates.sigma, self.coordinates.rounding)
        along = VACUOUS * rounding / np.maximum(sigma, rounding or 1.0)  # twice the rounding over σ, or vacuous
        return np.append(along, 0.0) + self._sum_rounding

    def _box(self, outer: bool) -> tuple[Float64[np.ndarray, " row"], Float64[np.ndarray, " row"]]:
        center = self.moves @ self.row
        down, up = self.displacements(outer)
        return center + down, center + up

    def optimum(self, cost: Row, outer: bool) -> Optimum | None:
        """The largest c·a' over the outer or the inner set; where they are one it is found once."""
        alike = self._exact and not self.coordinates.exact.ambiguous.any()
        asked = (outer and not alike, cost.tobytes())
        if self._last is None or self._last[0] != asked:
            self._program.confine(*self._box(outer), self.margin)
            self._last = (asked, self._program.maximize(cost))
        best = self._last[1]
        if outer and self._exact and best is not None and not best.bound - best.value <= CONFIRMED:
            return self._with_margin(cost, best)
        return best

    def _with_margin(self, cost: Row, best: Optimum) -> Optimum:
        """Where rounding loosens a bound, the multipliers that suit the set with its margin may prove a better one."""
        lower, upper = self._box(outer=True)
        self._program.confine(lower - self.margin, upper + self.margin)
        other = self._program.maximize(cost)
        return best if other is None or not other.bound < best.bound else other

    def bounds_by(
        self, multipliers: Float64[np.ndarray, " row"], costs: Float64[np.ndarray, "cost key"], most: Row
    ) -> Float64[np.ndarray, " cost"]:
        """What each c·a' cannot exceed over the outer set, by one program's multipliers, where a' ≤ most is already known."""
        lower, upper = self._box(outer=True)
        return np.asarray(dual_bound(costs, self.moves, lower - self.margin, upper + self.margin, most, multipliers))

    def vertex(self, cost: Row) -> Row | None:
        """The vertex of the inner set that has most of c·a', kept in mind; None where none truly lies in the set."""
        return self._keep(self.optimum(cost, outer=False))

    def bound(self, cost: Row) -> tuple[float, bool]:
        """What c·a' cannot exceed, proved, and whether a point of the outer set meets it."""
        if self.fixed:
            return float(cost @ self.row), True
        outer = self.optimum(cost, outer=True)
        trivial = float(max(cost.max() * total for total in (self._sum[0], self.largest_sum)))
        if outer is None or not np.isfinite(outer.bound):
            return trivial, False
        return min(outer.bound, trivial), outer.bound - outer.value <= CONFIRMED

    def reach(self, cost: Row) -> tuple[float, bool]:
        """The most of c·a' in a row at hand, and whether the inner set has no more."""
        own = float(cost @ self.row)
        if self.alone:
            return own, True
        inner = self.optimum(cost, outer=False)
        point = self._keep(inner)
        reached = own if point is None else max(own, float(cost @ point))
        return reached, inner is not None and abs(reached - inner.value) <= CONFIRMED

    def interval(self, cost: Row) -> Interval:
        """Where c·a' can lie, c being 1 on the keys of interest and 0 elsewhere."""
        (high_reached, top), (high, tight_top) = self.reach(cost), self.bound(cost)
        if any(cost @ vertex == 0 for vertex in self.vertices):  # weights are not negative, so this is the least there is
            return Interval(0.0, high, 0.0, high_reached, top and tight_top)
        (low_reached, bottom), (low, tight_bottom) = self.reach(-cost), self.bound(-cost)
        confirmed = top and tight_top and bottom and tight_bottom
        return Interval(max(0.0, -low), high, max(0.0, -low_reached), high_reached, confirmed)

    def change(self, point: Row) -> float:
        """How much the output changes, relative to its length."""
        return float(np.linalg.norm((point - self.row) @ self.coordinates.output)) / (self.output_norm or 1.0)

    def _keep(self, optimum: Optimum | None) -> Row | None:
        if optimum is None:
            return None
        point = self.settle(optimum.point)
        if point is not None:
            self.vertices.append(point)
        return point

    def settle(self, point: Row) -> Row | None:
        """A row of the set, from a point that misses it by a little rounding; None where more is amiss.

        What changes the output by too much is brought nearer to a; without a tolerance its own weights are adjusted.
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
        """The point with its positive weights changed by the least that gives it the output and the sum of a."""
        support = point > 0
        seen, missing = self.moves[:, support], self.moves @ (self.row - point)
        if self.coordinates.sink:
            seen, missing = seen[:-1], missing[:-1]
        adjusted = point.copy()
        adjusted[support] += np.linalg.lstsq(seen, missing, rcond=None)[0]
        return adjusted

    def _clean(self, point: Row) -> Row:
        """No weight below zero or that is nothing but rounding, and the sum that rows have."""
        positive = np.where(point > 4 * EPSILON, point, 0.0)
        least, most = self._sum
        total = positive.sum()
        return positive * (np.clip(total, least, most) / total) if total else positive

    def holds(self, point: Row) -> bool:
        """Whether a row lies in F_ε(a), to the rounding of float64; without a tolerance, of the values cut at their rank."""
        (moved, allowed), (least, most) = self._moved(point), self._sum
        slack = self._sum_rounding
        return bool(moved <= allowed and (point >= 0).all() and least - slack <= point.sum() <= most + slack)

    def _moved(self, point: Row) -> tuple[float, float]:
        """How much a row changes the output, and how much it may."""
        if not self._exact:
            moved = np.linalg.norm((point - self.row) @ self.coordinates.output)
            return float(moved), self.tolerance * self.output_norm + self.coordinates.rounding
        directions, sigma, rounding, _ = self.coordinates.exact
        return float(np.linalg.norm((point - self.row) @ directions * sigma)), rounding
