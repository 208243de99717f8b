"""Relevance by attention weights and their gradients."""

import torch
from jaxtyping import Float, Float64
from torch import Tensor


def gradient_attention(
    weights: Float[Tensor, "layer head position source"], gradients: Float[Tensor, "layer head position source"]
) -> Float64[Tensor, "position source"]:
    """R_L - I, with R_0 = I and R_l = R_{l-1} + mean over heads of (∇A_l ⊙ A_l)⁺ · R_{l-1}. Chefer et al. (2021b), Eqs. 5 and 6.

    ∇A are the gradients of the explained number. I, with which every position starts, is left out of the result.

    >>> weights = torch.full((1, 1, 2, 2), 0.5)
    >>> gradient_attention(weights, torch.tensor([[[[1.0, -1.0], [2.0, 4.0]]]]))
    tensor([[0.5000, 0.0000],
            [1.0000, 2.0000]], dtype=torch.float64)
    """
    identity = torch.eye(weights.shape[-1], dtype=torch.float64, device=weights.device)
    relevance = identity
    for layer in (weights.double() * gradients.double()).clamp(min=0).mean(1):
        relevance = relevance + layer @ relevance
    return relevance - identity
