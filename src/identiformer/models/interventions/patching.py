"""Run a model again with other attention in some heads, and say how little or how much that changes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from identiformer.equations.attention.effective import check_rows
from identiformer.equations.attention.heads import group_of
from identiformer.errors import InputError, UnsupportedModelError
from identiformer.models.attention.call import Call
from identiformer.models.attention.interface import WEIGHTS, recording
from identiformer.trace import AttentionLayer, RecordedLayer

Patches = Mapping[tuple[int, int], Tensor | np.ndarray]
"""(layer, head) → weights (query key)."""


@dataclass(frozen=True)
class Change:
    """The largest change of one hidden state, or of the output, over all positions and coordinates."""

    where: str
    patched: float
    """With the weights that were given."""
    control: float
    """With a random change of the same size: Gaussian, summing to zero, of equal L2 norm, on the keys that each row sees."""
    floor: float
    """With the model's own weights put back: what putting in alone does."""
    scale: float
    """The largest absolute value there."""


@dataclass(frozen=True)
class Rerun:
    """What other attention changed: every later hidden state, and the output last."""

    changes: tuple[Change, ...]

    @property
    def output(self) -> Change:
        """The output: logits where the model has a head, else the last hidden state."""
        return self.changes[-1]

    @property
    def ratio(self) -> float:
        """How many times smaller the output's change is than that of the control."""
        return self.output.control / self.output.patched if self.output.patched else float("inf")

    def sentence(self) -> str:
        """The finding in words."""
        output = self.output
        return (
            f"Re-running the model with that other attention changes the output by {output.patched:.1g} "
            f"(a random change of the same size: {output.control:.1g})."
        )


def check_patches(patches: Patches, layers: tuple[AttentionLayer, ...], allow_non_simplex: bool) -> dict[tuple[int, int], Tensor]:
    """Refuse what is no attention of these layers; give the rest as tensors."""
    if not patches:
        raise InputError("expected weights for at least one head, as {(layer, head): weights}, got none.")
    checked = {}
    for (number, head), given in patches.items():
        if not 1 <= number <= len(layers):
            raise InputError(f"expected a layer from 1 to {len(layers)}, got {number}.")
        layer = layers[number - 1].recorded()
        if not 0 <= head < layer.heads:
            raise InputError(f"expected a head from 0 to {layer.heads - 1}, got {head}.")
        weights = torch.as_tensor(given).double()
        if weights.shape != layer.weights.shape[1:]:
            raise InputError(
                f"expected weights of shape {tuple(layer.weights.shape[1:])} (query key) for layer {number}, head {head}, "
                f"got {tuple(weights.shape)}."
            )
        if not bool(weights.isfinite().all()):
            raise InputError(f"expected finite weights for layer {number}, head {head}, got NaN or infinity.")
        if not allow_non_simplex:
            _check_simplex(weights, layer, f"layer {number}, head {head}")
        checked[number, head] = weights
    return checked


def _check_simplex(weights: Tensor, layer: RecordedLayer, place: str) -> None:
    all_the_same = "give allow_non_simplex=True to run them all the same"
    if bool((weights < 0).any()):
        raise InputError(f"expected weights that are not negative for {place}, got {float(weights.min()):.4g}; {all_the_same}.")
    try:
        check_rows(weights[None].to(layer.weights.dtype), layer.visible, layer.sink)  # sums as exact as the model's own
    except InputError as error:
        raise InputError(f"{str(error).rstrip('.')} (the weights for {place}); {all_the_same}.") from None


def random_change(weights: Tensor, own: Tensor, layer: AttentionLayer, generator: torch.Generator) -> Tensor:
    """Own weights with a Gaussian change that sums to zero and is as long, in each row, as that of the weights given."""
    visible = layer.visible.dense()
    noise = torch.randn(own.shape, generator=generator, dtype=torch.float64).masked_fill_(~visible, 0)
    noise -= noise.sum(-1, keepdim=True) / visible.sum(-1, keepdim=True)
    noise.masked_fill_(~visible, 0)
    length = noise.norm(dim=-1, keepdim=True)
    return own + torch.where(length > 0, noise / length, 0) * (weights - own).norm(dim=-1, keepdim=True)


def run_with(
    replica: Any, forward: Callable[[], Any], calls: Mapping[int, int], patches: Mapping[tuple[int, int], Tensor]
) -> dict[str, Tensor]:
    """Hidden states by name, and last the output, of a run in which the calls of these layers have other weights."""
    made = 0
    of_call = {calls[layer]: [(head, weights) for (at, head), weights in patches.items() if at == layer] for layer, _ in patches}

    def on_call(call: Call) -> Tensor | None:
        nonlocal made
        made += 1
        heads = of_call.get(made - 1)
        if heads is None:
            return None
        output = call.output.clone()
        for head, weights in heads:
            queries, keys = weights.shape  # fewer than the call has where the model pads by itself
            group = group_of(head, call.heads, call.value.shape[1])
            output[:, :queries, head] = weights.to(call.value) @ call.value[:, group, :keys]
        return output

    with recording(replica, WEIGHTS, on_call):
        result = forward()
    return {**_hidden_states(result), "output": _output(result)}


def _hidden_states(result: Any) -> dict[str, Tensor]:
    kinds = {"encoder_hidden_states": "encoder layer", "decoder_hidden_states": "decoder layer", "hidden_states": "layer"}
    return {
        f"{kind} {number}": state.detach().cpu()
        for name, kind in kinds.items()
        for number, state in enumerate(getattr(result, name, None) or ())
    }


def _output(result: Any) -> Tensor:
    for name in ("logits", "last_hidden_state"):
        output = getattr(result, name, None)
        if isinstance(output, Tensor):
            return output.detach().cpu()
    raise UnsupportedModelError(
        f"expected a model with logits or a last hidden state, got one that returns {type(result).__name__}; wrap its base model."
    )


def compare(reference: Mapping[str, Tensor], others: Sequence[Mapping[str, Tensor]]) -> Rerun:
    """The largest change, max |x - y|, of each state from the reference: patched, control and floor."""
    return Rerun(
        tuple(
            Change(
                name,
                *(float((other[name].double() - state.double()).abs().max()) for other in others),
                scale=float(state.abs().max()),
            )
            for name, state in reference.items()
        )
    )
