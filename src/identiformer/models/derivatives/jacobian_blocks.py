"""The blocks ∂e_target/∂x_source of a model's Jacobian: which to compute, how many directions at once, and their gradients."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from identiformer.errors import InputError, MemoryBudgetError
from identiformer.models.blocks.module_states import hidden_states_of
from identiformer.models.derivatives.input_function import InputFunction
from identiformer.models.derivatives.tangents import LayerTangents
from identiformer.progress import WorkBar

MOST_AT_ONCE = 32
"""Tangents per batch: more do not make matrix products faster."""


@dataclass(frozen=True)
class Selection:
    """The Jacobian blocks to compute: these layers (from 1) and targets (from 0), every source."""

    layers: tuple[int, ...]
    targets: tuple[int, ...]


def batch_size(memory: int, kept: int, per_tangent: int, cached: int | None = None) -> int:
    """Return how many tangents to push at once within this many bytes; `cached` of them are fastest, where that is known."""
    fit = (memory - kept) // per_tangent
    if fit < 1:
        raise MemoryBudgetError(
            f"expected at least {(kept + per_tangent) / 2**20:.0f} MiB of memory, which a single direction needs on "
            f"a text of this length, got {memory / 2**20:.0f} MiB; allow more (memory=, --memory), or shorten the text."
        )
    return min(fit, MOST_AT_ONCE, MOST_AT_ONCE if cached is None else cached)


def selected(selection: Selection, layers: Iterator[LayerTangents]) -> Iterator[tuple[int, LayerTangents]]:
    """Yield each selected layer with its index in the selection, and compute none beyond the last of them."""
    for layer, tangents in zip(range(1, max(selection.layers) + 1), layers, strict=False):
        yield from ((index, tangents) for index, selected in enumerate(selection.layers) if selected == layer)


def require_dependence(norms: Tensor, selection: Selection) -> None:
    """Raise InputError unless all norms are finite and every target depends on some source."""
    for layer, of_layer in zip(selection.layers, norms, strict=True):
        if not bool(of_layer.isfinite().all()):
            raise InputError(f"expected finite derivatives, got NaN or infinity at layer {layer}; check the model's weights.")
        independent = (of_layer == 0).all(-1)
        if bool(independent.any()):
            raise InputError(
                f"expected hidden vectors that depend on the input, but at layer {layer} that of position "
                f"{selection.targets[int(independent.int().argmax())]} has only zero derivatives, so no token contributes to it; "
                "check the model's weights, or choose other layers and targets."
            )


class Pullback:
    """Gradients, with respect to the input, of a target's hidden vector along directions."""

    def __init__(self, function: InputFunction, memory: int, bar: WorkBar) -> None:
        self._bar, self._at_once = bar, batch_size(memory, 0, function.working_bytes)
        self._batched = not function.fused  # torch has no batching rule for fused kernels
        self._change = function.no_change.requires_grad_()
        with torch.enable_grad():
            self._states = function.run(self._change)

    def readout(self, scalar: Callable[[Any], Tensor]) -> Tensor:
        """The gradient of a number in the network's output with respect to the hidden vectors of the last layer."""
        with torch.enable_grad():
            (gradient,) = torch.autograd.grad(
                scalar(self._states.result), hidden_states_of(self._states.result)[-1], retain_graph=True
            )
        return gradient[0]

    def pull_each(self, layer: int, targets: Tensor, directions: Tensor) -> Iterator[Tensor]:
        """Yield gradients (target source width), one direction per target and some targets at a time."""
        for some in torch.arange(len(targets)).split(self._at_once):
            with torch.enable_grad():
                states = self._states.hidden[layer - 1][targets[some]]
            outputs = torch.diag_embed(directions[some].mT).permute(1, 2, 0)  # each moves its own target
            yield self._gradients(states, outputs)

    def pull(self, layer: int, target: int, directions: Tensor) -> Iterator[Tensor]:
        """Yield gradients (direction source width), some directions at a time."""
        with torch.enable_grad():
            state = self._states.hidden[layer - 1][target]
        for batch in directions.split(self._at_once):
            yield self._gradients(state, batch)

    def _gradients(self, state: Tensor, outputs: Tensor) -> Tensor:
        pull = partial(torch.autograd.grad, state, self._change, retain_graph=True)
        if self._batched:
            (pulled,) = pull(outputs, is_grads_batched=True)
        else:
            pulled = torch.stack([pull(output)[0] for output in outputs])
        self._bar.advance(len(outputs))
        return pulled
