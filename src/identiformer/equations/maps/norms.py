"""Norm-based attention: the length of what each key writes (Kobayashi et al. 2020 and 2021, Modarressi et al. 2022).

Head h writes a_ij·t_j at query i for key j, with t_j = v_jH.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from identiformer.equations.arrays import same_kind
from identiformer.equations.attention.heads import per_head

Weights = Float[Tensor, "head query key"]
Transformed = Float[Tensor, "head key model"]
Map = Float[Tensor, "query key"]


@same_kind
def transformed_values(values: Float[Tensor, "group key width"], projection: Float[Tensor, "head width model"]) -> Transformed:
    """t_j = v_jH, what a unit of weight on each key writes; consecutive heads share a group.

    >>> transformed_values(torch.ones(1, 1, 2), torch.tensor([[[1.0], [2.0]], [[3.0], [4.0]]])).flatten()
    tensor([3., 7.])
    """
    return per_head(values, len(projection)) @ projection


@same_kind
def mean_norms(weights: Weights, vectors: Float[Tensor, "group key width"]) -> Map:
    """The mean over heads of a_ij‖v_j‖; with t for v, of ‖a_ij·t_j‖ (Kobayashi et al. 2020, §3).

    >>> mean_norms(torch.tensor([[[0.5, 0.5]]]), torch.tensor([[[3.0, 4.0], [0.0, 1.0]]]))
    tensor([[2.5000, 0.5000]])
    """
    return torch.einsum("hqk,hk->qk", weights, per_head(vectors.norm(dim=-1), len(weights))) / len(weights)


@same_kind
def summed_norms(weights: Weights, transformed: Transformed, residual: Float[Tensor, "query model"] | None = None) -> Map:
    """‖Σ_h a_ij·t_j‖, with the residual vector r_i added for j = i (Kobayashi et al. 2020, §3; 2021, §3).

    ‖Σ_h a_ij·t_j‖² = Σ_hg a_ij^h·a_ij^g·⟨t_j^h, t_j^g⟩, so no array over pairs is as wide as the model. A linear map of what is
    written, such as that of a LayerNorm with fixed statistics, applies to t and r first.

    Parameters
    ----------
    weights : float array (head query key)
        A.
    transformed : float array (head key model)
        t.
    residual : float array (query model), optional
        r; queries and keys are then the same positions.

    Returns
    -------
    float array (query key)

    Examples
    --------
    >>> transformed = torch.tensor([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, -1.0]]])
    >>> summed_norms(torch.full((2, 1, 2), 0.5), transformed)
    tensor([[0.7071, 0.0000]])
    """
    by_key, written = weights.movedim(2, 0).mT, transformed.transpose(0, 1)  # (key query head), (key head model)
    squared = torch.linalg.vecdot(by_key @ (written @ written.mT), by_key).mT
    norms = squared.clamp(min=0).sqrt()
    return norms if residual is None else with_own_norms(norms, weights, transformed, residual)


@same_kind
def with_own_norms(norms: Map, weights: Weights, transformed: Transformed, residual: Float[Tensor, "query model"]) -> Map:
    """Norms ‖Σ_h a_ij·t_j‖ with the residual vector r_i added for j = i: all other entries stay.

    >>> with_own_norms(torch.tensor([[3.0]]), torch.ones(1, 1, 1), torch.tensor([[[3.0, 0.0]]]), torch.tensor([[0.0, 4.0]]))
    tensor([[5.]])
    """
    own = torch.einsum("hq,hqm->qm", weights.diagonal(dim1=1, dim2=2), transformed) + residual
    return norms.diagonal_scatter(own.norm(dim=-1))
