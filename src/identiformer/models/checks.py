"""Hold what was recorded of a model against the model itself, run without being recorded."""

import copy
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig

from identiformer.errors import ModelError
from identiformer.models.call import Call
from identiformer.models.capture import WEIGHTS, recording
from identiformer.models.layout import part_of
from identiformer.models.model import Model
from identiformer.models.tokens import Batch
from identiformer.trace import Trace

SAME = 1e-5
"""Difference of attention weights, or of numbers relative to the largest, that float32 leaves between two ways to one result."""

OWN = {"self": "attentions", "encoder": "encoder_attentions", "decoder": "decoder_attentions", "cross": "cross_attentions"}


class CheckFailed(ModelError):
    """What was recorded is not what the model computes."""


def check_own_weights(model: Model, batch: Batch, trace: Trace) -> bool:
    """Refuse weights that differ from those which an untouched copy gives out; False where it gives out none to compare."""
    network = copy.deepcopy(model.backbone)
    for config in _configs(network):
        config._attn_implementation_internal = "eager"
    try:
        with torch.no_grad():
            result = model._forward(batch.inputs, batch.decoder is not None, network, output_attentions=True)
    except (TypeError, ValueError, NotImplementedError):  # asked for what it does not know
        return False
    compared = 0
    for part in trace.parts:
        recorded = [layer.weights for layer in part.layers if layer.weights is not None]
        told = getattr(result, OWN[part.name], None) or getattr(result, "attentions", None) or ()
        # A hybrid may tell of its other layers too, in shapes of their own; a window may be told of as a band.
        shapes = {weights.shape for weights in recorded}
        given = [each for each in told if each is not None and each[0].shape in shapes]
        if len(given) != len(recorded):
            if given:
                raise CheckFailed(
                    f"{len(recorded)} layers of {part.name} attention were recorded, the model tells of {len(given)}."
                )
            continue
        for number, (weights, expected) in enumerate(zip(recorded, given, strict=True), 1):
            # SqueezeBERT gives out its scores.
            difference = min(float((weights - own).abs().max()) for own in (expected[0], expected[0].softmax(-1)))
            if not difference <= SAME:
                raise CheckFailed(f"recorded weights of layer {number} differ from the model's own by {difference:.2g}.")
            compared += 1
    return compared > 0


def check_head_outputs(model: Model, batch: Batch, trace: Trace) -> None:
    """Refuse weights and values whose product is not what the model goes on with, and a run that recording changes."""
    outputs: dict[str, list[Tensor]] = {part.name: [] for part in trace.parts}
    names = [part_of(site.path, model.network.config.is_encoder_decoder) for site in model.sites(batch)]

    def on_call(call: Call) -> None:
        name = names[sum(map(len, outputs.values()))]
        outputs[name].append(call.output[0].transpose(0, 1))

    decoding = batch.decoder is not None
    with recording(model.backbone, WEIGHTS, on_call):
        recorded = model._forward(batch.inputs, decoding)
    for part in trace.parts:
        for layer, output in zip(part.layers, outputs[part.name], strict=True):
            assert layer.weights is not None
            assert layer.values is not None
            product = layer.weights.to(layer.values) @ layer.values.repeat_interleave(layer.heads // len(layer.values), 0)
            _refuse_difference(product, output[:, : product.shape[1]], f"A·V of {part.name} layer {layer.number}")
    with torch.no_grad():
        plain = model._forward(batch.inputs, decoding)
    _refuse_difference(recorded[0], plain[0], "what the model gives while it is recorded")


def _refuse_difference(found: Tensor, expected: Tensor, what: str) -> None:
    difference = float((found - expected).abs().max() / expected.abs().max().clamp(min=1e-9))
    if not difference <= 10 * SAME:
        raise CheckFailed(f"{what} differs from what it gives by itself by {difference:.2g} of the largest.")


def state_of(network: nn.Module) -> list[Any]:
    """All that a run must leave as it was."""
    modules = list(network.modules())
    hooks = [
        hook
        for module in modules
        for hook in (*module._forward_hooks.values(), *module._forward_pre_hooks.values())
        if not getattr(hook, "__module__", "").startswith("transformers.")  # which puts its own in at the first run, for good
    ]
    implementations = [config._attn_implementation_internal for config in _configs(network)]
    weights = [(name, tensor.clone()) for name, tensor in network.state_dict().items()]
    return [modules, hooks, implementations, [module.training for module in modules], weights]


def check_unchanged(before: list[Any], after: list[Any]) -> None:
    """Refuse a network that is not as it was."""
    weights = zip(before[-1], after[-1], strict=True)
    same = all(name == other and torch.equal(own, others) for (name, own), (other, others) in weights)
    if before[:-1] != after[:-1] or not same:
        raise CheckFailed("the model is not as it was before.")


def _configs(network: nn.Module) -> Iterator[PreTrainedConfig]:
    found = (getattr(module, "config", None) for module in network.modules())
    return (config for config in found if isinstance(config, PreTrainedConfig))
