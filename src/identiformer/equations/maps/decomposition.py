"""DecompX: hidden vectors as sums of one part per input token, followed through the layers (Modarressi et al. 2023)."""

import torch
from jaxtyping import Float
from torch import Tensor


def share_bias(
    parts: Float[Tensor, "source *position width"], bias: Float[Tensor, " width"]
) -> Float[Tensor, "source *position width"]:
    """Add a bias to parts, in shares of |⟨part, b⟩|, so that their sum grows by b. §3.2.

    >>> share_bias(torch.tensor([[1.0, 0.0], [-3.0, 5.0]]), torch.tensor([4.0, 0.0]))
    tensor([[2., 0.],
            [0., 5.]])
    """
    sizes = (parts @ bias).abs()
    total = sizes.sum(0)
    shares = torch.where(total > 0, sizes / total.where(total > 0, 1.0), 1 / len(parts))
    return parts + shares[..., None] * bias


def attended_parts(
    parts: Float[Tensor, "source position width"],
    weights: Float[Tensor, "head position position"],
    values: Float[Tensor, "width features"],
    projection: Float[Tensor, "head_features width"],
) -> Float[Tensor, "source position width"]:
    """Σ_h A_h·part·V_hH_h: what attention writes of each part, without biases; weights are constants.

    values may have fewer heads than weights: each then serves several in a row.

    >>> attended_parts(torch.ones(2, 1, 1), torch.ones(1, 1, 1), torch.tensor([[2.0]]), torch.tensor([[3.0]])).flatten()
    tensor([6., 6.])
    """
    heads = len(weights)
    width = len(projection) // heads
    by_head = (parts @ values).unflatten(-1, (-1, width))
    by_head = by_head.repeat_interleave(heads // by_head.shape[-2], -2)
    mixed = torch.einsum("hqk,skhv->sqhv", weights, by_head)
    return mixed.flatten(-2) @ projection


def activated_parts(
    parts: Float[Tensor, "source *position width"],
    features: Float[Tensor, "*position width"],
    activated: Float[Tensor, "*position width"],
) -> Float[Tensor, "source *position width"]:
    """part·f(x)/x for parts that sum to x: they sum to f(x). §3.3, Eq. 12. Zero where x is.

    >>> activated_parts(torch.tensor([[1.0], [3.0]]), torch.tensor([4.0]), torch.tensor([2.0]))
    tensor([[0.5000],
            [1.5000]])
    """
    return parts * torch.where(features == 0, 0, activated / features)
