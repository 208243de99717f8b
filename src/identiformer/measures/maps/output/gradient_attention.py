"""Gradient × attention: attention weights that increase the output, followed through the layers."""

from collections.abc import Iterable

import torch
from torch import Tensor

from identiformer.equations.attention.heads import per_head
from identiformer.equations.maps.rollout import gradient_attention
from identiformer.measures.maps.kind import MapKind
from identiformer.measures.maps.output.gradients import GRADIENTS
from identiformer.models.attention.call import Call
from identiformer.models.derivatives.input_function import differentiable
from identiformer.passage import Passage


def gradient_attention_map(passage: Passage) -> Tensor:
    """The mean over the target's positions of R."""
    weights, gradients = differentiable(passage.target_function, lambda: _weights_and_gradients(passage))
    return gradient_attention(weights, gradients)[list(passage.target.positions)].mean(0)


def _weights_and_gradients(passage: Passage) -> tuple[Tensor, Tensor]:
    """Attention weights and the gradients of the target with respect to them, (layer head position source).

    Head outputs are o = AV, so ∂f/∂A = ∂f/∂o·Vᵀ. Gradients are taken at the outputs because some families do not multiply with
    the recorded weights themselves but with a view of them.
    """
    function, changes = passage.target_function, []

    def add_change(call: Call) -> Tensor:
        changes.append(torch.zeros_like(call.output, requires_grad=True))
        return call.output + changes[-1]

    with torch.enable_grad():
        states = function.run(function.no_change, add_change)
        gradients = torch.autograd.grad(passage.target.value(states.result)[0], changes)
    length = len(function.x)  # some families pad a text
    slopes = [
        gradient.transpose(1, 2) @ per_head(call.value, call.heads, 1).mT
        for call, gradient in zip(states.calls, gradients, strict=True)
    ]

    def of_text(layers: Iterable[Tensor | None]) -> Tensor:
        kept = (layer[0, :, :length, :length] for layer in layers if layer is not None)
        return torch.stack([layer.detach().cpu() for layer in kept])

    return of_text(call.weights for call in states.calls), of_text(slopes)


GRADIENT_ATTENTION = MapKind(
    name="gradient_attention",
    title="gradient × attention",
    formula="R_L - I, R_l = R_{l-1} + mean over heads of (∇A_l ⊙ A_l)⁺·R_{l-1}; mean over the target's positions",
    paper="Chefer et al. (2021)",
    cost="6",
    compute=gradient_attention_map,
    needs=GRADIENTS,
    explains_output=True,
)
