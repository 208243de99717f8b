"""Gradients of what a model outputs at the outputs of all heads: one backward pass per number that is differentiated."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from identiformer.errors import InputError, UnsupportedModelError, first_line
from identiformer.models.attention.call import Call
from identiformer.models.derivatives.input_function import differentiable_run
from identiformer.models.encoding.text import Batch
from identiformer.models.linear_maps import in_float32
from identiformer.models.loaded import LoadedModel
from identiformer.models.replica import replica_of
from identiformer.options import WEIGHTS_BUDGET

Scalars = Callable[[Any], list[Callable[[], Tensor]]]
"""From the result of the network to functions that return the numbers to differentiate, one after another."""
EAGER = WEIGHTS_BUDGET // 8
"""Bytes of attention weights up to which they are kept for the backward pass; beyond, a fused kernel computes them again."""


@dataclass(frozen=True, eq=False)
class HeadGradients:
    """g = ∂f/∂o at the outputs of the heads of every layer of one attention type, of one example."""

    layers: tuple[Tensor, ...]
    """One tensor (draw head query width) per layer, of the numbers that were differentiated."""

    def layer(self, number: int) -> Tensor:
        """Those of a layer, counted from 1."""
        return self.layers[number - 1]


def head_gradients(
    model: LoadedModel, batch: Batch, kind: str, scalars: Scalars, fused: bool | None = None, **options: Any
) -> HeadGradients:
    """Differentiate numbers in the network's result with respect to the head outputs, which H receives.

    All numbers share one forward pass, with `options`. Weights of other precision are read in float32 where they are used, so
    that quantized and offloaded models work. Gradients of several numbers are kept in bfloat16.
    """
    sites = model.sites(batch)
    if fused is None:
        fused = model.weights_size(batch.longest) > EAGER
    network = in_float32(replica_of(model.network))
    leaves: list[Tensor] = []

    def add_leaf(call: Call) -> Tensor:
        leaves.append(torch.zeros_like(call.output, requires_grad=True))
        return call.output + leaves[-1]

    chosen = [number for number, site in enumerate(sites) if site.kind == kind]
    gradients: list[list[Tensor]] = []
    try:
        with differentiable_run(network, add_leaf, fused), torch.enable_grad():
            functions = scalars(model.forward(network, batch.inputs, **options))
            wanted = [leaves[number] for number in chosen]
            while functions:
                last = len(functions) == 1
                found = torch.autograd.grad(functions.pop(0)(), wanted, retain_graph=not last, allow_unused=True)
                gradients.append([_kept(each, leaf, gradients or not last) for each, leaf in zip(found, wanted, strict=True)])
    except (NotImplementedError, RuntimeError) as error:
        family = model.backbone.config.model_type
        raise UnsupportedModelError(f"the {family} family cannot be differentiated ({first_line(error)}).") from error
    return HeadGradients(tuple(torch.stack(draws) for draws in zip(*gradients, strict=True)))


def _kept(gradient: Tensor | None, leaf: Tensor, several: Any) -> Tensor:
    """(head query width) of the only example; zero where the number does not depend on a layer."""
    one = torch.zeros_like(leaf) if gradient is None else gradient
    if not bool(one.isfinite().all()):
        raise InputError("expected finite gradients, got NaN or infinity; the model rounds or clips where it is differentiated.")
    heads = one[0].transpose(0, 1).cpu()
    return heads.bfloat16() if several else heads.float()
