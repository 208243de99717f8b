"""How much each key contributes to what a head or a layer writes, and which keys are attention sinks."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from identiformer.equations.arrays import moderate_size, same_kind
from identiformer.equations.attention.heads import per_head

Maps = Float[Tensor, "head query key"]
Values = Float[Tensor, "group key width"]
Projection = Float[Tensor, "head width model"] | None

SINK_WEIGHT = 0.1
"""A key that receives less weight is not called a sink."""
SINK_EFFECT = 0.1
"""A sink contributes, and writes, at most this share of its weight."""
ROUNDINGS = 8
"""An output shorter than this many roundings of its terms counts as zero: its direction is that of rounding errors."""


class HeadContributions(NamedTuple):
    """What each key contributes to the output o_i = Σ_j a_ij·t_j of each head, with t_j = v_jH."""

    contribution: Maps
    """p_ij = a_ij·⟨t_j, o_i⟩/‖o_i‖², the share of the output along its own direction: signed, with Σ_j p_ij = 1."""
    per_weight: Maps
    """g_ij = ⟨t_j, o_i⟩/‖o_i‖²: what a unit of weight on each key contributes."""
    relative_length: Maps
    """‖t_j‖/‖o_i‖."""
    norm_share: Maps
    """‖a_ij·t_j‖/Σ_k ‖a_ik·t_k‖, whatever the direction."""


@same_kind
def head_contributions(weights: Maps, values: Values, projection: Projection = None) -> HeadContributions:
    """The contribution of each key to the output of each head: p_ij = a_ij·⟨t_j, o_i⟩/‖o_i‖² with t_j = v_jH.

    p = A ∘ (OMV^T)/diag(OMO^T) with M = HH^T and O = AV, so no array is wider than the head. Rows may be any chosen ones.

    Parameters
    ----------
    weights : float array (head query key)
        A.
    values : float array (group key width)
        V with its bias; consecutive heads share a group.
    projection : float array (head width model), optional
        H, each head's slice of the output projection; without it the contributions are those to the output before it.

    Returns
    -------
    HeadContributions
        `contribution`, `per_weight`, `relative_length` and `norm_share`, each over (head, query, key), in the precision of the
        weights and at least float32. NaN in rows whose output is zero.

    Examples
    --------
    >>> values = torch.tensor([[[2.0, 0.0], [0.0, 2.0], [-1.0, 0.0]]])
    >>> head_contributions(torch.tensor([[[0.5, 0.3, 0.2]]]), values).contribution
    tensor([[[ 0.8000,  0.3600, -0.1600]]])
    """
    head = _HeadOutputs(weights, values, projection)
    per_weight = head.directions @ head.values.mT
    lengths = head.lengths
    written = head.weights @ lengths[..., None]
    return HeadContributions(
        head.weights * per_weight,
        per_weight,
        lengths[:, None, :] / head.squared_norm.sqrt()[..., None],
        head.weights * lengths[:, None, :] / torch.where(written > 0, written, torch.nan),
    )


@same_kind
def contributions(weights: Maps, values: Values, projection: Projection = None) -> Maps:
    """The contribution of each key to the output of each head, without the rest of `head_contributions`.

    Parameters
    ----------
    weights, values, projection
        As in `head_contributions`.

    Returns
    -------
    float array (head query key)
        Signed; each row sums to 1. NaN in rows whose output is zero.

    Examples
    --------
    >>> values = torch.tensor([[[2.0, 0.0], [0.0, 2.0], [-1.0, 0.0]]])
    >>> contributions(torch.tensor([[[0.5, 0.3, 0.2]]]), values)
    tensor([[[ 0.8000,  0.3600, -0.1600]]])
    """
    head = _HeadOutputs(weights, values, projection)
    return (head.directions @ head.values.mT).mul_(head.weights)


@same_kind
def layer_contributions(weights: Maps, values: Values, projection: Projection = None) -> Float[Tensor, "query key"]:
    """The contribution of each key to the output of a layer, o_i = Σ_h o_i^h: P_ij = Σ_h a_ij^h·⟨t_j^h, o_i⟩/‖o_i‖².

    Parameters
    ----------
    weights, values, projection
        As in `head_contributions`; without a projection the output is that of all heads side by side.

    Returns
    -------
    float array (query key)
        Signed; each row sums to 1. NaN in rows whose output is zero.

    Examples
    --------
    >>> weights, values = torch.tensor([[[0.5, 0.5]], [[1.0, 0.0]]]), torch.tensor([[[1.0], [1.0]], [[1.0], [9.0]]])
    >>> layer_contributions(weights, values, torch.ones(2, 1, 1))
    tensor([[0.7500, 0.2500]])
    """
    head, directions = _layer_outputs(weights, values, projection)
    return (directions @ head.values.mT).mul_(head.weights).sum(0)


@same_kind
def head_output_shares(weights: Maps, values: Values, projection: Projection = None) -> Float[Tensor, "head query"]:
    """How much of the layer's output each head writes, ⟨o_i^h, o_i⟩/‖o_i‖²: signed, with sum 1 over heads.

    >>> weights, values = torch.tensor([[[0.5, 0.5]], [[1.0, 0.0]]]), torch.tensor([[[1.0], [1.0]], [[3.0], [9.0]]])
    >>> head_output_shares(weights, values, torch.ones(2, 1, 1))
    tensor([[0.2500],
            [0.7500]])
    """
    head, directions = _layer_outputs(weights, values, projection)
    return torch.linalg.vecdot(head.outputs, directions)


@same_kind
def is_sink(
    weights: Float[Tensor, "*row key"], contribution: Float[Tensor, "*row key"], norm_share: Float[Tensor, "*row key"]
) -> Bool[Tensor, "*row key"]:
    """Which keys are attention sinks of a row: they receive at least 0.1 of it, and contribute a tenth of that at most.

    A sink's value is short: a key may also contribute little because it writes a long vector that is orthogonal to the output,
    and that other keys cancel.

    >>> weights, share = torch.tensor([[[0.5, 0.45, 0.05]]]), torch.tensor([[[0.02, 0.93, 0.05]]])
    >>> is_sink(weights, share, share)
    tensor([[[ True, False, False]]])
    """
    most = SINK_EFFECT * weights
    return (weights >= SINK_WEIGHT) & (contribution.abs() <= most) & (norm_share <= most)


class _HeadOutputs:
    """The outputs of heads, in units in which squares cannot overflow; contributions do not depend on the unit.

    o_i is the output after the projection, and squared_norm is NaN where it is zero. The products of directions with values are
    what a unit of weight contributes.
    """

    def __init__(self, weights: Maps, values: Values, projection: Projection) -> None:
        dtype = torch.promote_types(weights.dtype, torch.float32)
        self.weights, values = weights.to(dtype), _moderate(values).to(dtype)
        self.values = values if len(values) == len(weights) else per_head(values, len(weights))
        self.outputs = self.weights @ self.values  # O = AV
        self._gram = None  # M = HH^T
        longest_squared = self.values.norm().square()
        if projection is not None:
            projection = _moderate(projection).to(dtype)
            self._gram = projection @ projection.mT
            longest_squared *= self._gram.norm()
        transformed = self._transformed(self.outputs)
        squared_norm = torch.linalg.vecdot(transformed, self.outputs)
        self.squared_norm = _defined(squared_norm, longest_squared, lambda: (self.weights @ self.lengths[..., None])[..., 0])
        self.directions = transformed / self.squared_norm[..., None]  # OM/‖o_i‖²

    @property
    def lengths(self) -> Float[Tensor, "head key"]:
        """‖t_j‖."""
        return torch.linalg.vecdot(self._transformed(self.values), self.values).clamp(min=0).sqrt()

    def _transformed(self, vectors: Float[Tensor, "head row width"]) -> Float[Tensor, "head row width"]:
        return vectors if self._gram is None else vectors @ self._gram


def _layer_outputs(
    weights: Maps, values: Values, projection: Projection
) -> tuple[_HeadOutputs, Float[Tensor, "head query width"]]:
    """The outputs of heads, and oH^T/‖o_i‖² with o the output of the layer."""
    head = _HeadOutputs(weights, values, projection)
    if projection is None:
        directions, norm = head.outputs, head.outputs.square().sum((0, -1)).sqrt()
    else:
        projection = _moderate(projection).to(head.outputs)
        total = torch.einsum("hqw,hwm->qm", head.outputs, projection)
        directions, norm = torch.einsum("qm,hwm->hqw", total, projection), total.norm(dim=-1)
    lengths = head.lengths
    squared_norm = _defined(
        norm.square(), lengths.amax(-1).sum().square(), lambda: torch.einsum("hqk,hk->q", head.weights, lengths)
    )
    return head, directions / squared_norm[:, None]


def _moderate(arrays: Float[Tensor, "group row column"]) -> Float[Tensor, "group row column"]:
    if arrays.dtype != torch.float64:  # needs no scaling, nor the copy that flattening may take
        return arrays
    return moderate_size(arrays.flatten(0, 1))[0].view_as(arrays)


def _defined(
    squared_norm: Float[Tensor, "*row"], longest_squared: Float[Tensor, ""], written: Callable[[], Float[Tensor, "*row"]]
) -> Float[Tensor, "*row"]:
    """‖o_i‖²; NaN where it is that of the rounding errors of the output's terms, whose lengths sum to `written`.

    Rows of attention sum to one, so a bound on the longest of what keys write bounds that sum, and mostly settles it without a
    product.
    """
    rounding = ROUNDINGS * torch.finfo(squared_norm.dtype).eps
    if bool((squared_norm > (2 * rounding) ** 2 * longest_squared).all()):
        return squared_norm
    return torch.where(squared_norm.clamp(min=0).sqrt() > rounding * written(), squared_norm, torch.nan)
