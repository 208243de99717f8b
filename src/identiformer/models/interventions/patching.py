"""Run a model again with patched attention in some heads, and measure how much its hidden states and output change."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import nan
from typing import Any

import numpy as np
import torch
from torch import Tensor

from identiformer.equations.attention.effective import check_rows
from identiformer.equations.attention.heads import group_of
from identiformer.errors import InputError, UnsupportedModelError
from identiformer.models.attention.call import Call
from identiformer.models.attention.interface import WEIGHTS, recording
from identiformer.models.encoding.text import Batch
from identiformer.models.loaded import LoadedModel
from identiformer.models.replica import replica_of
from identiformer.trace import AttentionLayer, AttentionStack, RecordedLayer

Patches = Mapping[tuple[int, int], Tensor | np.ndarray]
"""(layer, head) → weights (query key)."""
Weights = dict[tuple[int, int], Tensor]
COMPARED = 3
"""Runs that are compared with the unpatched one: patched, control, and with the model's own weights."""
States = dict[str, Tensor]
"""Hidden states by name, and last the output."""


@dataclass(frozen=True)
class Change:
    """The largest change of one hidden state, or of the output, over all positions and coordinates."""

    where: str
    patched: float
    """With the patched weights."""
    control: float
    """With a random change of the same size: Gaussian, summing to zero, of equal L2 norm, on the visible keys of each row."""
    floor: float
    """With the model's own weights: the rounding error of patching itself."""
    scale: float
    """The largest absolute value of the state."""


@dataclass(frozen=True, eq=False)
class Rerun:
    """How much patched attention changes each later hidden state and, as the last entry, the output."""

    changes: tuple[Change, ...]
    before: Tensor
    """The output of the unpatched run: logits where the model has a head, otherwise the last hidden state."""
    after: Tensor
    """The output of the patched run."""

    @property
    def output(self) -> Change:
        """The change of the output: logits where the model has a head, otherwise the last hidden state."""
        return self.changes[-1]


def weights_to_run(patches: Patches, stack: AttentionStack, allow_non_simplex: bool, seed: int) -> tuple[Weights, ...]:
    """The weights of the three runs to compare: patched, control, and the model's own."""
    if not patches:
        raise InputError("expected weights for at least one head, as {(layer, head): weights}, got none.")
    patched = {
        (number, head): _checked(torch.as_tensor(weights).double(), stack.layers, number, head, allow_non_simplex)
        for (number, head), weights in patches.items()
    }
    original = {(number, head): stack.layers[number - 1].recorded().weights[head].double() for number, head in patched}
    generator = torch.Generator().manual_seed(seed)
    control = {
        (number, head): random_change(weights, original[number, head], stack.layers[number - 1], generator)
        for (number, head), weights in patched.items()
    }
    return patched, control, original


def _checked(weights: Tensor, layers: Sequence[AttentionLayer], number: int, head: int, allow_non_simplex: bool) -> Tensor:
    """Reject weights that are not attention of this head."""
    if not 1 <= number <= len(layers):
        raise InputError(f"expected a layer from 1 to {len(layers)}, got {number}.")
    layer = layers[number - 1].recorded()
    if not 0 <= head < layer.heads:
        raise InputError(f"expected a head from 0 to {layer.heads - 1}, got {head}.")
    if weights.shape != layer.weights.shape[1:]:
        raise InputError(
            f"expected weights of shape {tuple(layer.weights.shape[1:])} (query key) for layer {number}, head {head}, "
            f"got {tuple(weights.shape)}."
        )
    if not bool(weights.isfinite().all()):
        raise InputError(f"expected finite weights for layer {number}, head {head}, got NaN or infinity.")
    if not allow_non_simplex:
        _check_simplex(weights, layer, f"layer {number}, head {head}")
    return weights


def _check_simplex(weights: Tensor, layer: RecordedLayer, where: str) -> None:
    remedy = "use allow_non_simplex=True to run them anyway"
    if bool((weights < 0).any()):
        raise InputError(f"expected nonnegative weights for {where}, got {float(weights.min()):.4g}; {remedy}.")
    try:
        # In the model's precision, so that sums need not be more exact than its own.
        check_rows(weights[None].to(layer.weights.dtype), layer.visible, layer.sink)
    except InputError as error:
        raise InputError(f"{str(error).rstrip('.')} (the weights for {where}); {remedy}.") from None


def random_change(weights: Tensor, original: Tensor, layer: AttentionLayer, generator: torch.Generator) -> Tensor:
    """The model's own weights plus Gaussian noise that sums to zero and has, in each row, the norm of the patch's change."""
    visible = layer.visible.dense()
    noise = torch.randn(original.shape, generator=generator, dtype=torch.float64).masked_fill_(~visible, 0)
    noise -= noise.sum(-1, keepdim=True) / visible.sum(-1, keepdim=True)
    noise.masked_fill_(~visible, 0)
    length = noise.norm(dim=-1, keepdim=True)
    return original + torch.where(length > 0, noise / length, 0) * (weights - original).norm(dim=-1, keepdim=True)


def rerun(
    model: LoadedModel,
    batch: Batch,
    stack: AttentionStack,
    patches: Patches,
    *,
    allow_non_simplex: bool = False,
    seed: int = 0,
    control: bool = True,
    once: Callable[[Hashable, Callable[[], States]], States] = lambda _, compute: compute(),
) -> Rerun:
    """Run a model with patched attention; see `Model.rerun`.

    Without `control`, the control and the run with the model's own weights are left out. `once` keeps runs that do not depend on
    the patch, by a key.
    """
    patched, changed, original = weights_to_run(patches, stack, allow_non_simplex, seed)
    calls = [call for call, site in enumerate(model.sites(batch)) if site.kind == stack.kind]

    def run(weights: Weights) -> States:
        replica = replica_of(model.network)
        forward = partial(model.forward, replica, batch.inputs, output_hidden_states=True)
        return patched_states(replica, forward, calls, weights)

    runs = [once("unpatched run", lambda: run({})), run(patched)]
    if control:
        runs += [run(changed), once(("run with own weights", stack.kind, *original), lambda: run(original))]
    return compare(runs, stack.kind, min(layer for layer, _ in patched))


def patched_states(replica: Any, forward: Callable[[], Any], calls: Sequence[int], weights: Weights) -> States:
    """Hidden states by name, and last the output, of a run with other weights; `calls` numbers the call of each layer."""
    patcher = _Patcher({(calls[layer - 1], head): matrix for (layer, head), matrix in weights.items()})
    with recording(replica, WEIGHTS, patcher):
        result = forward()
    prefixes = {"encoder_hidden_states": "encoder layer", "decoder_hidden_states": "decoder layer", "hidden_states": "layer"}
    states = {
        f"{prefix} {number}": state.detach().cpu()
        for name, prefix in prefixes.items()
        for number, state in enumerate(getattr(result, name, None) or ())
    }
    outputs = (getattr(result, name, None) for name in ("logits", "last_hidden_state"))
    output = next((output for output in outputs if isinstance(output, Tensor)), None)
    if output is None:
        raise UnsupportedModelError(
            f"expected a model with logits or a last hidden state, got one that returns {type(result).__name__}; wrap its base "
            "model."
        )
    return {**states, "output": output.detach().cpu()}


class _Patcher:
    """Replaces the outputs of some heads, by the number of the call and the head, with those of other weights."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self._calls = 0

    def __call__(self, call: Call) -> Tensor | None:
        heads = {head: weights for (number, head), weights in self._weights.items() if number == self._calls}
        self._calls += 1
        if not heads:
            return None
        output = call.output.clone()
        for head, weights in heads.items():
            queries, keys = weights.shape  # fewer than in the call where the model itself pads
            group = group_of(head, call.heads, call.value.shape[1])
            output[:, :queries, head] = weights.to(call.value) @ call.value[:, group, :keys]
        return output


def compare(runs: Sequence[Mapping[str, Tensor]], kind: str, layer: int) -> Rerun:
    """The largest change, max |x - y|, of the states from this layer on: the unpatched run against the others."""
    reference, *others = runs
    prefix = "layer" if kind == "self" else f"{kind.replace('cross', 'decoder')} layer"
    prefix = prefix if f"{prefix} 0" in reference else "layer"  # the states of an encoder that runs alone have no prefix
    names = list(reference)
    first = names.index(f"{prefix} {layer}") if f"{prefix} {layer}" in names else -1  # some models return only their output
    return Rerun(
        tuple(
            Change(
                name,
                *(float((other[name].double() - reference[name].double()).abs().max()) for other in others),
                *(nan for _ in range(COMPARED - len(others))),
                scale=float(reference[name].abs().max()),
            )
            for name in names[first:]
        ),
        before=reference["output"],
        after=others[0]["output"],
    )
