"""Maps from attention rows or from positions alone: without some keys, with the residual connection, and baselines."""

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor

from identiformer.equations.arrays import same_kind

Maps = Float[Tensor, "*layer query key"]
Visible = Bool[Tensor, "*layer query key"]


@same_kind
def normalized_rows(scores: Maps) -> Maps:
    """Scores as shares of their row; a row of zeros stays zero.

    >>> normalized_rows(torch.tensor([[1.0, 3.0], [0.0, 0.0]]))
    tensor([[0.2500, 0.7500],
            [0.0000, 0.0000]])
    """
    sums = scores.sum(-1, keepdim=True)
    return scores / torch.where(sums == 0, 1, sums)


@same_kind
def without_keys(weights: Maps, removed: Bool[Tensor, " key"]) -> Maps:
    """Attention on the keys that are not removed, as shares: a_ij/Σ_k a_ik over the keys k that are left.

    A row with all its weight on removed keys is zero.

    >>> without_keys(torch.tensor([[0.5, 0.3, 0.2]]), torch.tensor([True, False, False]))
    tensor([[0.0000, 0.6000, 0.4000]])
    """
    return normalized_rows(weights.masked_fill(removed, 0))


@same_kind
def with_residual(weights: Maps) -> Maps:
    """Attention with the residual connection as an equal share: ½A + ½I (Abnar and Zuidema 2020, §3).

    >>> with_residual(torch.tensor([[1.0, 0.0], [0.5, 0.5]]))
    tensor([[1.0000, 0.0000],
            [0.2500, 0.7500]])
    """
    return (weights + torch.eye(weights.shape[-1], dtype=weights.dtype, device=weights.device)) / 2


def uniform_rows(visible: Visible) -> Float64[Tensor, "*layer query key"]:
    """The same share for every visible key.

    >>> uniform_rows(torch.tensor([[True, False], [True, True]]))
    tensor([[1.0000, 0.0000],
            [0.5000, 0.5000]], dtype=torch.float64)
    """
    return normalized_rows(visible.double())


def random_rows(visible: Visible, seed: int) -> Float64[Tensor, "*layer query key"]:
    """Shares drawn uniformly from the simplex of the visible keys: exponential draws, normalized.

    >>> random_rows(torch.tensor([[True, False], [True, True]]), seed=0).sum(-1)
    tensor([1., 1.], dtype=torch.float64)
    """
    uniform = torch.rand(visible.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return normalized_rows(-torch.log1p(-uniform).to(visible.device) * visible)


def nearby_rows(visible: Visible) -> Float64[Tensor, "*layer query key"]:
    """Shares that fall with the distance between tokens: 1/(1 + |i - j|) over the visible keys, normalized.

    >>> nearby_rows(torch.tensor([[True, True], [True, True]]))
    tensor([[0.6667, 0.3333],
            [0.3333, 0.6667]], dtype=torch.float64)
    """
    queries, keys = (torch.arange(size, dtype=torch.float64, device=visible.device) for size in visible.shape[-2:])
    return normalized_rows(visible / (1 + (queries[:, None] - keys).abs()))
