"""Explanations by derivatives: gradient × input, AttnLRP, integrated gradients, gradient × attention, and HTA."""

import warnings
from collections.abc import Callable, Iterable
from functools import partial

import torch
from torch import Tensor

from identiformer.equations.attention.heads import per_head
from identiformer.equations.maps.rollout import gradient_attention
from identiformer.measures.attribution.gradient_times_input import input_gradient
from identiformer.measures.attribution.hidden_token import attribution_of
from identiformer.measures.maps.kind import MapKind
from identiformer.models.attention.call import Call
from identiformer.models.derivatives.input_function import differentiable
from identiformer.models.derivatives.relevance import relevance_rules
from identiformer.models.interventions.input_removal import placeholder
from identiformer.passage import Passage

STEPS = 50
"""Gradients along the path of integrated gradients, at the points of Gauss-Legendre quadrature."""
TOKENS_AT_ONCE = 512
"""Differentiated together; their graph takes most of the memory."""
ROUGH = 0.05
"""Share of the attributions by which their sum may miss the change of the output."""


def _token_attribution_last(passage: Passage) -> Tensor:
    contributions = torch.from_numpy(attribution_of(passage).contribution.isel(layer=-1).values)
    return contributions[list(passage.target.positions)].double().mean(0)


def _gradient_times_input(passage: Passage) -> Tensor:
    function = passage.target_function
    _, gradient = differentiable(function, partial(input_gradient, function, lambda result: passage.target.value(result)[0]))
    return (function.x * gradient).double().sum(-1).cpu()


def _attnlrp(passage: Passage) -> Tensor:
    """The same with the gradient of f by the rules of AttnLRP."""
    _ = passage.blocks  # rules are known for the operations of these layouts only
    with relevance_rules(passage.target_function.network):
        return _gradient_times_input(passage)


def _integrated_gradients(passage: Passage) -> Tensor:
    """⟨x_j - x'_j, ∫₀¹ ∂f(x' + α(x - x'))/∂x_j dα⟩, which sums to f(x) - f(x').

    x' are the vectors of the same text with a placeholder, such as the mask token, in place of every token that is not special.
    Zero vectors would not do: norms divide by the length of a vector, so that f has a step next to zero.
    """
    from captum.attr import IntegratedGradients  # takes a second to import

    function = passage.target_function
    hidden = torch.tensor(passage.tokens.special).logical_not()[None].to(function.x.device)
    ids = function.inputs["input_ids"].masked_fill(hidden, placeholder(passage.model))
    baseline = function.vectors_of({**function.inputs, "input_ids": ids})

    def target(points: Tensor) -> Tensor:
        return passage.target.value(function.repeated(len(points)).run(points - function.x).result)

    with torch.no_grad():
        expected = passage.target.unchanged - float(target(baseline[None]))
    at_once = max(1, TOKENS_AT_ONCE // len(function.x))
    method = IntegratedGradients(target).attribute
    compute: Callable[[], Tensor] = partial(method, function.x[None], baseline[None], n_steps=STEPS, internal_batch_size=at_once)
    attributions = differentiable(function, compute)[0].double().sum(-1).cpu()
    if abs(float(attributions.sum()) - expected) > ROUGH * max(abs(expected), float(attributions.abs().sum())):
        warnings.warn(
            f"integrated gradients of a text do not sum to f(x) - f(x'), because the output is rough along the path: "
            f"{STEPS} steps only approximate them.",
            stacklevel=2,
        )
    return attributions


def _gradient_attention(passage: Passage) -> Tensor:
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
        return torch.stack([layer[0, :, :length, :length].detach().cpu() for layer in layers if layer is not None])

    return of_text(call.weights for call in states.calls), of_text(slopes)


GRADIENTS = "gradients"
BY_GRADIENTS = (
    MapKind(
        name="token_attribution_last",
        title="Hidden Token Attribution to the last layer",
        formula="c_ij = ‖∂e_i/∂x_j‖/Σ_k‖∂e_i/∂x_k‖ of the last layer; mean over the target's positions",
        paper="Brunner et al. (2020)",
        cost="20 per token",
        compute=_token_attribution_last,
        needs=GRADIENTS,
        cheap=False,
        explains_output=True,
    ),
    MapKind(
        name="gradient_times_input",
        title="gradient × input",
        formula="⟨x_j, ∂f/∂x_j⟩",
        paper="Denil et al. (2014)",
        cost="4",
        compute=_gradient_times_input,
        needs=GRADIENTS,
        signed=True,
        explains_output=True,
    ),
    MapKind(
        name="integrated_gradients",
        title="integrated gradients",
        formula="⟨x_j - x'_j, ∫₀¹ ∂f(x' + α(x - x'))/∂x_j dα⟩, with x' the vectors of masked tokens",
        paper="Sundararajan et al. (2017)",
        cost=f"{3 * STEPS}",
        compute=_integrated_gradients,
        needs=GRADIENTS,
        signed=True,
        cheap=False,
        explains_output=True,
    ),
    MapKind(
        name="gradient_attention",
        title="gradient × attention",
        formula="R_L - I, R_l = R_{l-1} + mean over heads of (∇A_l ⊙ A_l)⁺·R_{l-1}; mean over the target's positions",
        paper="Chefer et al. (2021)",
        cost="6",
        compute=_gradient_attention,
        needs=GRADIENTS,
        explains_output=True,
    ),
    MapKind(
        name="attnlrp",
        title="AttnLRP",
        formula="⟨x_j, ∇̃f_j⟩, with ∇̃ the gradient by relevance rules: norms and activations proportional, products in equal "
        "parts",
        paper="Achtibat et al. (2024)",
        cost="8",
        compute=_attnlrp,
        needs=f"{GRADIENTS}, blocks of BERT, Llama or GPT-2",
        signed=True,
        explains_output=True,
    ),
)
