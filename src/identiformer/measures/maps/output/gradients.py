"""Explanations by derivatives with respect to the input vectors x: gradient × input, integrated gradients, and HTA."""

import warnings
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from identiformer.measures.attribution.gradient_times_input import input_gradient
from identiformer.measures.attribution.hidden_token import attribution_of
from identiformer.measures.maps.kind import MapKind
from identiformer.models.derivatives.input_function import differentiable
from identiformer.models.interventions.input_removal import placeholder
from identiformer.passage import Passage

STEPS = 50
"""Gradients along the path of integrated gradients, at the points of Gauss-Legendre quadrature."""
TOKENS_AT_ONCE = 512
"""Differentiated together; their graph takes most of the memory."""
ROUGH = 0.05
"""Share of the attributions by which their sum may miss the change of the output."""


def token_attribution_last(passage: Passage) -> Tensor:
    """c_ij of the last layer: the mean over the target's positions i."""
    contributions = torch.from_numpy(attribution_of(passage).contribution.isel(layer=-1).values)
    return contributions[list(passage.target.positions)].double().mean(0)


def gradient_times_input(passage: Passage) -> Tensor:
    """⟨x_j, ∂f/∂x_j⟩."""
    function = passage.target_function
    _, gradient = differentiable(function, partial(input_gradient, function, lambda result: passage.target.value(result)[0]))
    return (function.x * gradient).double().sum(-1).cpu()


def integrated_gradients(passage: Passage) -> Tensor:
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


GRADIENTS = "gradients"

TOKEN_ATTRIBUTION_LAST = MapKind(
    name="token_attribution_last",
    title="Hidden Token Attribution to the last layer",
    formula="c_ij = ‖∂e_i/∂x_j‖/Σ_k‖∂e_i/∂x_k‖ of the last layer; mean over the target's positions",
    paper="Brunner et al. (2020)",
    cost="20 per token",
    compute=token_attribution_last,
    needs=GRADIENTS,
    cheap=False,
    explains_output=True,
)
GRADIENT_TIMES_INPUT = MapKind(
    name="gradient_times_input",
    title="gradient × input",
    formula="⟨x_j, ∂f/∂x_j⟩",
    paper="Denil et al. (2014)",
    cost="4",
    compute=gradient_times_input,
    needs=GRADIENTS,
    signed=True,
    explains_output=True,
)
INTEGRATED_GRADIENTS = MapKind(
    name="integrated_gradients",
    title="integrated gradients",
    formula="⟨x_j - x'_j, ∫₀¹ ∂f(x' + α(x - x'))/∂x_j dα⟩, with x' the vectors of masked tokens",
    paper="Sundararajan et al. (2017)",
    cost=f"{3 * STEPS}",
    compute=integrated_gradients,
    needs=GRADIENTS,
    signed=True,
    cheap=False,
    explains_output=True,
)
