"""Effective attention without query x key arrays: two thin factors, from which rows, columns and entries are computed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from identiformer.equations.arrays import floating, moderate_size, require_comparable, times_power_of_two
from identiformer.equations.attention.heads import group_of, per_head
from identiformer.equations.attention.rank import TRUSTED_GRAM, precision_of, refine, row_space
from identiformer.equations.attention.row_solver import solve_rows
from identiformer.equations.attention.summaries import leverage
from identiformer.equations.attention.visibility import Visibility
from identiformer.errors import InputError

QUERIES_AT_ONCE = 128
"""Rows whose weights are converted to float64 together."""


@dataclass(frozen=True, eq=False)
class FactoredAttention:
    """A⊥ of the heads of one layer: A⊥[head, i, j] = coordinates[head, i]·basis[group, j] where i sees j, else 0. §3.2.

    The basis holds whitened values: float32 factors then have float32 accuracy, which y = oG^+ and v in float32 would not.
    Consecutive heads share a group of values, as in grouped-query attention.

    Parameters
    ----------
    coordinates : float tensor (head query rank)
    basis : float tensor (group key rank)
    visible : Visibility
        The keys that each query sees.
    rank : int64 tensor (group query)
        The rank of the values that each query sees.
    smallest : float64 tensor (group query)
        A lower bound on σ_r, the smallest singular value kept in each row.
    oblique_norm, oblique_leverage : float64 tensors (head query) and (group key), optional
        Squared norms and leverage, where queries see different keys, so that no basis is orthonormal for all of them.
    direct : int
        How many of the last columns are single keys: their coordinates are the weights of rows that would lose digits in others.

    Examples
    --------
    >>> weights, values = torch.tensor([[[0.5, 0.3, 0.2]]]), torch.tensor([[[1.0], [1.0], [0.0]]])
    >>> factored = factor_weights(weights, values, Visibility.full(1, 3))
    >>> factored.rows(head=0, queries=[0]).abs(), factored.nullity
    (tensor([[0.4000, 0.4000, 0.0000]]), tensor([[2]]))
    """

    coordinates: Float[Tensor, "head query rank"]
    basis: Float[Tensor, "group key rank"]
    visible: Visibility
    rank: Int64[Tensor, "group query"]
    smallest: Float64[Tensor, "group query"]
    oblique_norm: Float64[Tensor, "head query"] | None = None
    oblique_leverage: Float64[Tensor, "group key"] | None = None
    direct: int = 0

    @property
    def heads(self) -> int:
        return self.coordinates.shape[0]

    @property
    def squared_norm(self) -> Float64[Tensor, "head query"]:
        """‖a⊥‖² of each row."""
        if self.oblique_norm is not None:
            return self.oblique_norm
        return torch.linalg.vector_norm(self.coordinates, dim=-1).double().square()

    @property
    def leverage(self) -> Float64[Tensor, "group key"]:
        """The effective share of a unit weight on each key."""
        if self.oblique_leverage is not None:
            return self.oblique_leverage
        return self.basis.square().sum(-1, dtype=torch.float64)

    @property
    def nullity(self) -> Int64[Tensor, "group query"]:
        """The dimension of each row's null space."""
        return self.visible.counts - self.rank

    def restrict(self, queries: Int64[Tensor, " chosen"]) -> "FactoredAttention":
        """A⊥ of some queries."""
        return FactoredAttention(
            self.coordinates[:, queries],
            self.basis,
            self.visible.rows(queries),
            self.rank[:, queries],
            self.smallest[:, queries],
            None if self.oblique_norm is None else self.oblique_norm[:, queries],
            self.oblique_leverage,
            self.direct,
        )

    def matrices(self, out: Float[Tensor, "head query key"] | None = None) -> Float[Tensor, "head query key"]:
        """A⊥ of every head in full, which takes queries x keys numbers per head."""
        stacked = self.coordinates.reshape(len(self.basis), -1, self.coordinates.shape[-1])
        shape = (self.heads, self.visible.queries, self.visible.keys)
        fits = out is not None and out.dtype == stacked.dtype
        dense = out if out is not None and fits else torch.empty(shape, dtype=stacked.dtype, device=stacked.device)
        torch.bmm(stacked, self.basis.mT, out=dense.view(*stacked.shape[:2], -1))
        if not self.visible.shared:
            dense.masked_fill_(~self.visible.dense(), 0)
        return dense if out is None or fits else out.copy_(dense)

    def rows(self, head: int, queries: Sequence[int] | Tensor) -> Float[Tensor, "query key"]:
        """A⊥ of some queries of one head, over all keys."""
        indices = _indices(queries, self.visible.queries, "query")
        coordinates, basis = self._factors(head)
        return (coordinates[indices] @ basis.mT).masked_fill_(~self.visible.rows(indices).dense(), 0)

    def columns(self, head: int, keys: Sequence[int] | Tensor) -> Float[Tensor, "query key"]:
        """A⊥ of every query of one head, on some keys."""
        indices = _indices(keys, self.visible.keys, "key")
        coordinates, basis = self._factors(head)
        return (coordinates @ basis[indices].mT).masked_fill_(~self.visible.columns(indices), 0)

    def column_means(self) -> Float64[Tensor, "head key"]:
        """The mean effective attention that each key receives, over all queries."""
        grouped = self.coordinates.unflatten(0, (len(self.basis), -1)).double()
        received = torch.linalg.vecdot(self.visible.sum_over_queries(grouped), self.basis[:, None].double())
        return received.flatten(0, 1) / self.visible.queries

    def row_sums(self) -> Float64[Tensor, "head query"]:
        """The sum of each row of A⊥."""
        totals = self.visible.sum_over_keys(self.basis.double())
        grouped = self.coordinates.unflatten(0, (len(self.basis), -1))
        return torch.linalg.vecdot(grouped.double(), totals[:, None]).flatten(0, 1)

    def output_error(self, output_norm: Float[Tensor, "head query"], precision: torch.dtype) -> Float64[Tensor, "head query"]:
        """A bound on ‖δa⊥‖/‖a⊥‖ from the rounding of the outputs it was computed from: eps·‖o‖/(σ_r·‖a⊥‖)."""
        floor = per_head(self.smallest, self.heads) * self.squared_norm.sqrt()
        return torch.finfo(precision).eps * output_norm.double() / floor

    def _factors(self, head: int) -> tuple[Float[Tensor, "query rank"], Float[Tensor, "key rank"]]:
        if not 0 <= head < self.heads:
            raise InputError(f"expected a head from 0 to {self.heads - 1}, got {head}.")
        return self.coordinates[head], self.basis[group_of(head, self.heads, len(self.basis))]


def _indices(indices: Sequence[int] | Tensor, limit: int, name: str) -> Int64[Tensor, " chosen"]:
    chosen = torch.as_tensor(indices, dtype=torch.int64)
    if bool(((chosen < 0) | (chosen >= limit)).any()):
        raise InputError(f"expected {name} numbers from 0 to {limit - 1}, got {chosen.tolist()}.")
    return chosen


@floating
def factor_weights(
    weights: Float[Tensor, "head query key"],
    values: Float[Tensor, "group key width"],
    visible: Visibility,
    precision: torch.dtype | None = None,
) -> FactoredAttention:
    """A⊥ in factored form from attention weights and values. §3.2.

    Parameters
    ----------
    weights : float tensor (head query key)
    values : float tensor (group key width)
        V with its bias, before grouped-query repetition.
    visible : Visibility
    precision : torch.dtype, optional
        The dtype in which V was computed, if it was converted since (V itself shows float32). It sets the rank threshold.

    Returns
    -------
    FactoredAttention

    Examples
    --------
    >>> factor_weights(torch.full((1, 2, 2), 0.5), torch.ones(1, 2, 3), Visibility.full(2, 2)).rank
    tensor([[1, 1]])
    """
    precision = precision or precision_of(values)
    heads, queries, keys = weights.shape
    groups, visible = len(values), visible.to(values.device)
    moderate, exponent = moderate_size(values)
    if not visible.shared:
        outputs = _outputs_of_visible(weights, moderate.double(), visible)
        return _in_units(factor_outputs(outputs, moderate, visible, precision), exponent)
    stacked = weights.reshape(groups, heads // groups * queries, keys)
    doubled = moderate.mT.contiguous().double().mT
    space = row_space(doubled, precision)
    rows = space.whitening.mT @ doubled.mT  # orthonormal
    if space.left is not None:
        rows[space.doubtful] = space.left.mT
    basis = rows.to(torch.promote_types(weights.dtype, torch.float32))
    coordinates = (stacked.to(basis.dtype) @ basis.mT).view(heads, queries, -1)
    rank, smallest = (each[:, None].expand(groups, queries) for each in (space.rank, space.smallest))
    return _in_units(FactoredAttention(coordinates, basis.mT, visible, rank, smallest), exponent)


def _outputs_of_visible(
    weights: Float[Tensor, "head query key"], values: Float64[Tensor, "group key width"], visible: Visibility
) -> Float64[Tensor, "head query width"]:
    """O = AV in float64, some queries at a time: only their weights, on the keys that they see, are converted and multiplied."""
    grouped = weights.unflatten(0, (len(values), -1))
    outputs = values.new_empty(*grouped.shape[:3], values.shape[-1])
    for first in range(0, visible.queries, QUERIES_AT_ONCE):
        some = slice(first, first + QUERIES_AT_ONCE)
        keys = slice(int(visible.start[some].min()), int(visible.stop[some].max()))
        own = grouped[:, :, some, keys].double()
        outputs[:, :, some] = (own.flatten(1, 2) @ values[:, keys]).view(*own.shape[:3], -1)
    return outputs.flatten(0, 1)


def _in_units(factored: FactoredAttention, exponent: Int64[Tensor, " group"]) -> FactoredAttention:
    """Express σ_r in units of values that are 2^exponent times as large; nothing else depends on their size."""
    return replace(factored, smallest=times_power_of_two(factored.smallest, exponent[:, None]))


@floating
def factor_outputs(
    outputs: Float[Tensor, "head query width"],
    values: Float[Tensor, "group key width"],
    visible: Visibility | None = None,
    precision: torch.dtype | None = None,
) -> FactoredAttention:
    """A⊥ in factored form from head outputs O = AV and values alone: a⊥_i = o_i G_i^+ V_i^T over the keys that i sees.

    This is Eq. 9 (§3.2) in closed form. A fused kernel computes O, so no query x key array is needed.

    Parameters
    ----------
    outputs : float tensor (head query width)
        O; the factors have its precision, or float64 where float32 would lose digits.
    values : float tensor (group key width)
        V with its bias, before grouped-query repetition.
    visible : Visibility, optional
        The keys that each query sees; all by default.
    precision : torch.dtype, optional
        The dtype in which V was computed, if it was converted since (V itself shows float32). It sets the rank threshold.

    Returns
    -------
    FactoredAttention

    Examples
    --------
    >>> factor_outputs(torch.ones(1, 2, 1), torch.ones(1, 2, 1), Visibility.causal(2)).matrices()
    tensor([[[1.0000, 0.0000],
             [0.5000, 0.5000]]])
    """
    heads, queries, width = outputs.shape
    groups, keys, _ = values.shape
    if heads % groups or outputs.shape[-1] != values.shape[-1]:
        raise InputError(
            "expected outputs (head query width) and values (group key width) of one width, and a number of "
            f"heads that is a multiple of the number of groups, got {tuple(outputs.shape)} and {tuple(values.shape)}."
        )
    visible = (visible or Visibility.full(queries, keys)).to(values.device)
    precision = precision or precision_of(values)
    values, exponent = moderate_size(values)
    if not visible.shared:
        require_comparable(values)
    side = min(keys, width) if visible.shared else width
    kept = torch.promote_types(outputs.dtype, torch.float32)
    coordinates = torch.empty(heads, queries, side, dtype=kept, device=values.device)
    basis = torch.empty(groups, keys, side, dtype=kept, device=values.device)
    rank = torch.empty(groups, queries, dtype=torch.int64, device=values.device)
    smallest = torch.empty(groups, queries, dtype=torch.float64, device=values.device)
    squared_norm = torch.empty(heads, queries, dtype=torch.float64, device=values.device)
    direct: dict[int, tuple[Tensor, Tensor]] = {}
    for group, own_outputs in enumerate(outputs.unflatten(0, (groups, -1))):
        # One group at a time, so that only one group's float64 copies are in memory.
        o, v = times_power_of_two(own_outputs.transpose(0, 1).double(), -exponent[group]), values[group].double()
        share = slice(group * len(own_outputs), (group + 1) * len(own_outputs))
        if visible.shared:
            space = row_space(v, precision)
            whitened, own_basis = o @ space.whitening, v @ space.whitening if space.left is None else space.left[0]
            if precision == torch.float64:
                whitened = refine(whitened, o, v, own_basis, space.whitening)
            rank[group], smallest[group] = space.rank, space.smallest
        else:
            solution = solve_rows(o, v, visible, precision)
            norms = (solution.y * o).sum(-1).clamp_(min=0)
            norms[solution.direct] = solution.weights.square().sum(-1)
            if precision == torch.float64:  # rows are accurate in the coordinates of V, of whatever size, or have weights
                size = torch.frexp(v.abs().max()).exponent.long()
                whitened, own_basis = times_power_of_two(solution.y, size), times_power_of_two(v, -size)
            else:
                inward, outward = _balanced_coordinates(v)
                whitened, own_basis = solution.y @ inward, v @ outward
                if bool((whitened.square().sum(-1) > max(keys, width) ** 2 * norms).any()):
                    # Terms so much larger than their sum cancel: in float32 too little would be left of it.
                    coordinates, basis = coordinates.double(), basis.double()
            rank[group], smallest[group], squared_norm[share] = solution.rank, solution.smallest, norms.mT
            if len(solution.direct):
                direct[group] = solution.direct, solution.weights
        coordinates[share], basis[group] = whitened.transpose(0, 1), own_basis
    if visible.shared:
        return _in_units(FactoredAttention(coordinates, basis, visible, rank, smallest), exponent)
    # A balanced basis is orthonormal over all keys, so it determines the leverage in a last row that sees them all at full rank.
    balanced = precision != torch.float64
    determined = balanced and bool((visible.last_viewer() == queries - 1).all() and (rank[:, -1] == width).all())
    own_leverage = None if determined else leverage(values, visible, precision)
    factored = FactoredAttention(coordinates, basis, visible, rank, smallest, squared_norm, own_leverage)
    return _in_units(_with_direct_rows(factored, direct) if direct else factored, exponent)


def _with_direct_rows(factored: FactoredAttention, direct: dict[int, tuple[Tensor, Tensor]]) -> FactoredAttention:
    """The factors with one more column per key on which rows have weights of their own, which are their coordinates there."""
    groups = len(factored.basis)
    used = torch.stack([weights.ne(0).any(0).any(0) for _, weights in direct.values()]).any(0).nonzero()[:, 0]
    own = factored.coordinates.new_zeros(groups, factored.heads // groups, factored.visible.queries, len(used))
    for group, (rows, weights) in direct.items():
        own[group][:, rows] = weights[..., used].transpose(0, 1).to(own)
    columns = torch.nn.functional.one_hot(used, factored.visible.keys).mT.to(factored.basis).expand(groups, -1, -1)
    coordinates = torch.cat([factored.coordinates, own.flatten(0, 1)], -1)
    return replace(factored, coordinates=coordinates, basis=torch.cat([factored.basis, columns], -1), direct=len(used))


def _balanced_coordinates(
    values: Float64[Tensor, "key width"],
) -> tuple[Float64[Tensor, "width width"], Float64[Tensor, "width width"]]:
    """M^{-T} and M with y·v = (yM^{-T})·(vM): a change of coordinates in which float32 factors lose little accuracy.

    M makes the Gram matrix of all keys the identity and that of the first keys, as many as the head is wide, diagonal.
    The latter matters: rows that see little more than those are the worst conditioned, and in other coordinates
    large terms would cancel (on SmolLM2 ‖A⊥V - AV‖ is then 2e-4 of ‖a‖σ₁, with it 1e-6).
    """
    gram = values.mT @ values
    factor, failed = torch.linalg.cholesky_ex(gram)
    inverse = torch.linalg.solve_triangular(factor, torch.eye(len(gram), dtype=gram.dtype, device=gram.device), upper=False)
    inward, outward = factor, inverse.mT
    if bool(failed) or not bool(inverse.square().sum() * gram.trace() < 1 / TRUSTED_GRAM):
        # Cholesky takes a tenth of the time, but not where some direction has almost no values.
        eigenvalues, vectors = torch.linalg.eigh(gram)
        scale = eigenvalues.clamp(min=float(eigenvalues[-1]) * 1e-14 or 1.0).sqrt()
        inward, outward = vectors * scale, vectors / scale
    first = values[: values.shape[1]] @ outward
    rotation = torch.linalg.eigh(first.mT @ first).eigenvectors
    return inward @ rotation, outward @ rotation
