"""ALTI-Logit: what attention adds to a logit, traced to the input tokens (Ferrando et al. 2023)."""

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from identiformer.equations.maps.rollout import layer_mixing


def logit_updates(
    weights: Float[Tensor, "head key"], transformed: Float[Tensor, "head key model"], readout: Float[Tensor, " model"]
) -> Float64[Tensor, " key"]:
    """Δ_j = Σ_h a_j·⟨v_jH, u⟩: what each key adds to the logit through the attention of one layer, at one position.

    u is the read-out of the logit from the residual stream, with the final norm as a linear map. §3.2, Eq. 9.

    >>> logit_updates(torch.tensor([[0.5, 0.5]]), torch.tensor([[[2.0, 1.0], [0.0, 4.0]]]), torch.tensor([1.0, -1.0]))
    tensor([ 0.5000, -2.0000], dtype=torch.float64)
    """
    return (weights.double() * (transformed.double() @ readout.double())).sum(0)


def traced_updates(
    updates: Float64[Tensor, "layer key"], contributions: Float[Tensor, "layer position source"]
) -> Float64[Tensor, " source"]:
    """Σ_l Δ^l M^(l-1), with M^l = C^l ⋯ C^1 the contributions of tokens to the vectors after layer l, and M^0 = I. §3.3, Eq. 13.

    C are the rows of ALTI: they sum to 1, so that the result sums to all updates. A row without scores keeps its position.

    >>> updates = torch.tensor([[1.0, 0.0], [0.0, 2.0]], dtype=torch.float64)
    >>> traced_updates(updates, torch.tensor([[[1.0, 0.0], [0.5, 0.5]]] * 2))
    tensor([2., 1.], dtype=torch.float64)
    """
    rolled = torch.eye(updates.shape[-1], dtype=torch.float64, device=updates.device)
    traced = torch.zeros_like(updates[0])
    for update, mixing in zip(updates, layer_mixing(contributions, add_residual=False), strict=True):
        traced = traced + update @ rolled
        rolled = mixing @ rolled
    return traced
