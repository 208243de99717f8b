"""The rows of attention that give the same output: how far each weight can move among them, proved on both sides.

F_ε(a) = {a' ≥ 0 : Σa' = Σa, ‖(a' - a)T‖ ≤ ε‖aT‖}, and Σa' ≤ 1 in place of Σa' = Σa where a learned sink takes the rest.

In orthonormal coordinates of the output, T = UΣX^T, the change of output is z = (a' - a)UΣ. The box |z_k| ≤ ε‖aT‖ holds the
ball, so what holds in this outer set is certain; the box |z_k| ≤ ε‖aT‖/√r lies within the ball, so what is found in this
inner set can be reached. Both are polyhedra, and with ε = 0 they are one.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from identiformer.equations.linear_programme import LinearProgramme, Optimum, dual_bound
from identiformer.equations.rank import noise_floor_squared, numerical_rank

Row = Float64[np.ndarray, " key"]

CONFIRMED = 1e-7
"""A bound is confirmed when the point that reaches it and the multipliers that prove it differ by no more."""

LARGEST_WEIGHT = 1.05  # rounded rows may sum to a little more than one

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


class OutputCoordinates:
    """What a head's output sees of the weights on some keys: T = UΣX^T.

    With a tolerance all of T counts, and directions that are rounding noise take no part in what is certain. Without one,
    T is cut at the numerical rank of the values.
    """

    def __init__(
        self, values: Float64[Tensor, "key width"], output: Float64[Tensor, "key outer"], precision: torch.dtype, sink: bool
    ) -> None:
        """The rank is that of `values`; distances are those of `output`, the values as the output projection leaves them."""
        self.values, self.precision, self.sink = values, precision, sink
        left, sigma, _ = torch.linalg.svd(output, full_matrices=False)
        floor = noise_floor_squared(sigma[0].square(), sigma.square().sum(), len(output), output.shape[1], precision)
        self.directions: Float64[np.ndarray, "key side"] = left.numpy()
        self.sigma: Float64[np.ndarray, " side"] = sigma.numpy()
        self.output: Float64[np.ndarray, "key outer"] = output.numpy()
        self.noise = float(floor.sqrt())

    @cached_property
    def _span(self) -> tuple[Float64[Tensor, "key rank"], float]:
        return self._cut(self.values)

    @property
    def gap(self) -> float:
        """σ_r/σ_{r+1} of the values: how clearly their rank is told; infinite where they have no further direction."""
        return self._span[1]

    @cached_property
    def programme(self) -> LinearProgramme:
        """Its rows are the coordinates of the output and the sum."""
        return self._programme(self.directions)

    @cached_property
    def exact_programme(self) -> LinearProgramme:
        """The same for outputs that do not change at all.

        Where the ones lie in the span of T, up to rounding, the sum takes the place of the coordinate along them: two rows
        that differ by rounding alone would forbid what neither forbids.
        """
        basis = self._span[0].numpy()
        tells_the_sum = basis.shape[1] + self.null_space.shape[1] == len(basis)
        if self.sink or not tells_the_sum:
            return self._programme(basis)
        along = basis.sum(0, keepdims=True).T
        return self._programme(basis @ np.linalg.qr(along, mode="complete").Q[:, 1:])

    def _programme(self, directions: Float64[np.ndarray, "key some"]) -> LinearProgramme:
        keys = len(directions)
        return LinearProgramme(np.vstack([directions.T, np.ones(keys)]), np.full(keys, LARGEST_WEIGHT))

    @cached_property
    def null_space(self) -> Float64[np.ndarray, "key nullity"]:
        """An orthonormal basis of LN([T, 1]), or of LN(T) where a sink leaves the sum free: changes that nothing sees."""
        return self._null_space(self.values, self._span[0])

    def dimension(self, support: Bool[np.ndarray, " key"]) -> int:
        """The dimension of the rows with this output that are positive on these keys and zero elsewhere."""
        if support.all():
            return self.null_space.shape[1]
        chosen = self.values[support]
        return self._null_space(chosen, self._cut(chosen)[0]).shape[1]

    def _cut(self, values: Float64[Tensor, "some width"]) -> tuple[Float64[Tensor, "some rank"], float]:
        """An orthonormal basis of the columns of V up to its numerical rank, and the gap there."""
        left, sigma, _ = torch.linalg.svd(values, full_matrices=False)
        squared = sigma.square()
        rank = int((squared > noise_floor_squared(squared[0], squared.sum(), len(values), values.shape[1], self.precision)).sum())
        return left[:, :rank], float(sigma[rank - 1] / sigma[rank]) if 0 < rank < len(sigma) else float("inf")

    def _null_space(
        self, values: Float64[Tensor, "some width"], basis: Float64[Tensor, "some rank"]
    ) -> Float64[np.ndarray, "some nullity"]:
        scale = float(values.square().mean().sqrt()) or 1.0
        augmented = torch.cat([values, values.new_full((len(values), 1), scale)], -1)
        if not self.sink and int(numerical_rank(augmented, self.precision)) > basis.shape[1]:
            one = torch.ones(len(basis), 1, dtype=basis.dtype)
            rest = one - basis @ (basis.mT @ one)
            basis = torch.cat([basis, rest / rest.norm()], -1)
        return torch.linalg.qr(basis, mode="complete").Q[:, basis.shape[1] :].numpy()


@dataclass
class FeasibleSet:
    """F_ε(a) of one row; remembers the vertices of the inner set that it has met."""

    coordinates: OutputCoordinates
    row: Row
    tolerance: float
    vertices: list[Row] = field(default_factory=list)
    _last: tuple[tuple[bool, bytes], Optimum | None] | None = None

    @cached_property
    def _sum(self) -> tuple[float, float]:
        total = float(self.row.sum())
        return (0.0, max(total, 1.0)) if self.coordinates.sink else (total, total)

    @property
    def _programme(self) -> LinearProgramme:
        return self.coordinates.programme if self.tolerance else self.coordinates.exact_programme

    @property
    def moves(self) -> Float64[np.ndarray, "row key"]:
        """What is told of a change a' - a: its output coordinates, and last its sum."""
        return self._programme.rows

    @property
    def largest_sum(self) -> float:
        """What a row may sum to at most."""
        return self._sum[1]

    @cached_property
    def output_norm(self) -> float:
        return float(np.linalg.norm(self.row @ self.coordinates.output))

    @cached_property
    def fixed(self) -> bool:
        """Whether nothing can move: no tolerance, and no direction that the output and the sum do not see."""
        return self.tolerance == 0 and not self.coordinates.null_space.size

    @cached_property
    def dimension(self) -> int:
        """The dimension of the rows with exactly this output; keys of weight zero count where their weight can rise."""
        support = self.row > 0
        exact = FeasibleSet(self.coordinates, self.row, 0.0)
        while not support.all() and not exact.fixed:
            best = exact.optimum((~support).astype(np.float64), outer=True)
            if best is None or best.value <= CONFIRMED:
                break
            support |= best.point > CONFIRMED / len(support)
        return self.coordinates.dimension(support)

    def displacements(self, outer: bool) -> tuple[Float64[np.ndarray, " row"], Float64[np.ndarray, " row"]]:
        """How far a' - a may go, down and up, along each output coordinate and in its sum."""
        if self.tolerance:
            sigma = self.coordinates.sigma
            change = self.tolerance * self.output_norm / (1.0 if outer else np.sqrt(len(sigma)))
            free = (sigma * VACUOUS <= change) | (outer & (sigma <= self.coordinates.noise))
            half = np.where(free, VACUOUS, change / np.where(free, 1.0, sigma))
        else:
            half = np.zeros(len(self.moves) - 1)
        least, most = self._sum
        total = self.row.sum()
        return np.append(-half, least - total), np.append(half, most - total)

    def _box(self, outer: bool) -> tuple[Float64[np.ndarray, " row"], Float64[np.ndarray, " row"]]:
        centre = self.moves @ self.row
        down, up = self.displacements(outer)
        return centre + down, centre + up

    def optimum(self, cost: Row, outer: bool) -> Optimum | None:
        """The largest c·a' over the outer or the inner set; without a tolerance they are one, and solved once."""
        asked = (outer and self.tolerance > 0, cost.tobytes())
        if self._last is None or self._last[0] != asked:
            self._programme.confine(*self._box(outer))
            self._last = (asked, self._programme.maximise(cost))
        return self._last[1]

    def bounds_by(
        self, multipliers: Float64[np.ndarray, " row"], costs: Float64[np.ndarray, "cost key"], most: Row
    ) -> Float64[np.ndarray, " cost"]:
        """What each c·a' cannot exceed over the outer set, by one programme's multipliers, where a' ≤ most is already known."""
        return np.asarray(dual_bound(costs, self.moves, *self._box(outer=True), most, multipliers))

    def vertex(self, cost: Row) -> Row | None:
        """The vertex of the inner set that has most of c·a', kept in mind; None where none truly lies in the set."""
        return self._keep(self.optimum(cost, outer=False))

    def bound(self, cost: Row) -> tuple[float, bool]:
        """What c·a' cannot exceed, proved, and whether a point of the outer set meets it."""
        if self.fixed:
            return float(cost @ self.row), True
        outer = self.optimum(cost, outer=True)
        trivial = float(max(cost.max() * total for total in self._sum))
        if outer is None or not np.isfinite(outer.bound):
            return trivial, False
        return min(outer.bound, trivial), outer.bound - outer.value <= CONFIRMED

    def reach(self, cost: Row) -> tuple[float, bool]:
        """The most of c·a' in a row at hand, and whether the inner set has no more."""
        own = float(cost @ self.row)
        if self.fixed:
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
        return self._moved(point) / (self.output_norm or 1.0)

    def _moved(self, point: Row) -> float:
        return float(np.linalg.norm((point - self.row) @ self.coordinates.output))

    def _keep(self, optimum: Optimum | None) -> Row | None:
        if optimum is None:
            return None
        point = self._clean(optimum.point)
        if not self.holds(point):
            return None
        self.vertices.append(point)
        return point

    def _clean(self, point: Row) -> Row:
        """A solver's point without its rounding: no weight below zero, and the sum that rows have."""
        positive = np.where(point > 1e-12, point, 0.0)
        least, most = self._sum
        total = positive.sum()
        return positive * (np.clip(total, least, most) / total) if total else positive

    def holds(self, point: Row) -> bool:
        """Whether a row lies in F_ε(a); without a tolerance, up to the rounding noise that the values themselves carry."""
        least, most = self._sum
        allowed = (self.tolerance + CONFIRMED) * self.output_norm
        if not self.tolerance:
            allowed += np.sqrt(2) * self.coordinates.noise
        return bool(self._moved(point) <= allowed and (point >= 0).all() and least - CONFIRMED <= point.sum() <= most + CONFIRMED)
