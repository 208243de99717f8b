"""Hold what was recorded of a model against the model itself, run without being recorded."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import jvp
from transformers import PreTrainedConfig

from identiformer.equations.attention.grouped_heads import per_head
from identiformer.errors import ModelError
from identiformer.models.attention.call import Call
from identiformer.models.attention.interface import WEIGHTS, recording
from identiformer.models.attention.sites import attention_kind
from identiformer.models.derivatives.input_function import InputFunction, hidden_states_of
from identiformer.models.derivatives.input_site import embedding_of
from identiformer.models.encoding.text import Batch
from identiformer.models.model import Model
from identiformer.trace import RecordedLayer, Trace

SAME = 1e-5
"""Difference of attention weights, or of numbers relative to the largest, that float32 leaves between two ways to one result."""

STEPS, ALIKE = (1e-3, 1e-4, 1e-5), 3e-3
"""How far an embedding is moved for finite differences, and how near they must come: a large step may reach where other experts
are chosen, a small one drowns in rounding, for many families compute parts in float32 always. A wrong derivative is near none."""

OWN = {"self": "attentions", "encoder": "encoder_attentions", "decoder": "decoder_attentions", "cross": "cross_attentions"}


class CheckError(ModelError):
    """What was recorded is not what the model computes."""


def check_own_weights(model: Model, batch: Batch, trace: Trace) -> bool:
    """Refuse weights that differ from those which an untouched copy gives out; False where it gives out none to compare."""
    network = copy.deepcopy(model.backbone)
    for config in _configs(network):
        config._attn_implementation_internal = "eager"
    try:
        with torch.no_grad():
            result = model._forward(network, batch.inputs, batch.decoder is not None, output_attentions=True)
    except (TypeError, ValueError, NotImplementedError):  # asked for what it does not know
        return False
    compared = 0
    for stack in trace.stacks:
        recorded = [layer.weights for layer in stack.layers if isinstance(layer, RecordedLayer)]
        told = getattr(result, OWN[stack.kind], None) or getattr(result, "attentions", None) or ()
        # A hybrid may tell of its other layers too, in shapes of their own; a window may be told of as a band.
        shapes = {weights.shape for weights in recorded}
        given = [each for each in told if each is not None and each[0].shape in shapes]
        if len(given) != len(recorded):
            if given:
                raise CheckError(
                    f"{len(recorded)} layers of {stack.kind} attention were recorded, the model tells of {len(given)}."
                )
            continue
        for number, (weights, expected) in enumerate(zip(recorded, given, strict=True), 1):
            # SqueezeBERT gives out its scores.
            difference = min(float((weights - own).abs().max()) for own in (expected[0], expected[0].softmax(-1)))
            if not difference <= SAME:
                raise CheckError(f"recorded weights of layer {number} differ from the model's own by {difference:.2g}.")
            compared += 1
    return compared > 0


def check_head_outputs(model: Model, batch: Batch, trace: Trace) -> None:
    """Refuse weights and values whose product is not what the model goes on with, and a run that recording changes."""
    outputs: dict[str, list[Tensor]] = {stack.kind: [] for stack in trace.stacks}
    names = [attention_kind(site.path, model.network.config.is_encoder_decoder) for site in model.sites(batch)]

    def on_call(call: Call) -> None:
        name = names[sum(map(len, outputs.values()))]
        outputs[name].append(call.output[0].transpose(0, 1))

    decoding = batch.decoder is not None
    replica = model.replica()
    with recording(replica, WEIGHTS, on_call):
        recorded = model._forward(replica, batch.inputs, decoding)
    for stack in trace.stacks:
        for layer, output in zip((each.recorded() for each in stack.layers), outputs[stack.kind], strict=True):
            product = layer.weights.to(layer.values) @ per_head(layer.values, layer.heads)
            _refuse_difference(product, output[:, : product.shape[1]], f"A·V of {stack.kind} layer {layer.number}")
    with torch.no_grad():
        plain = model._forward(model.replica(), batch.inputs, decoding)
    _refuse_difference(recorded[0], plain[0], "what the model gives while it is recorded")


def check_derivatives(function: InputFunction) -> None:
    """Refuse derivatives other than how an untouched copy moves as the embedding of one token does, by finite differences.

    As x moves with it, so the hidden states must; an embedding that reaches them in other ways too shows.
    """
    network = copy.deepcopy(function.network).double()
    for config in _configs(network):
        config._experts_implementation_internal = "eager"  # the only one that knows float64
    embedding = embedding_of(network)
    if embedding is None or "input_ids" not in function.inputs or function.family == "ibert":  # which rounds what it embeds
        return
    site = network.get_submodule(next(name for name, module in function.network.named_modules() if module is function.site))
    moved = len(function.x) // 2

    def run(step: float) -> tuple[Tensor, Tensor]:
        """x, and the last hidden states, with one embedding so far away in a random direction."""
        seen: list[Tensor] = []

        def move(_: nn.Module, __: Any, given: Tensor) -> Tensor:
            vectors = given.reshape(-1, given.shape[-1]).clone()  # some families have the position's axis first
            direction = torch.randn(vectors.shape[-1], generator=torch.Generator().manual_seed(0))
            vectors[moved] += step * direction / direction.norm()
            return vectors.view_as(given)

        hooks = [embedding.register_forward_hook(move)]
        if function.at_output:
            hooks.append(site.register_forward_hook(lambda _, __, given: seen.append(given)))
        else:
            hooks.append(
                site.register_forward_pre_hook(
                    lambda _, given, named: seen.append(given[0] if given else named["hidden_states"]), with_kwargs=True
                )
            )
        try:
            with torch.no_grad():
                states = hidden_states_of(network(**function.inputs, output_hidden_states=True))[-1][0]
        finally:
            for hook in hooks:
                hook.remove()
        return seen[0].view(function.x.shape), states

    precise = replace(function, network=network, site=site, x=function.x.double())

    def difference(step: float) -> float:
        (there, states_there), (back, states_back) = run(step), run(-step)
        change, expected = (there - back) / (2 * step), (states_there - states_back) / (2 * step)
        found = jvp(lambda change: precise.run(change).hidden[-1], (precise.no_change,), (change,))[1]
        return float((found - expected).norm() / expected.norm())

    with _in_float64():
        least = min(difference(step) for step in STEPS)
    if not least <= ALIKE:
        raise CheckError(f"derivatives differ from finite differences of the model by {least:.2g} of their size.")


@contextmanager
def _in_float64() -> Iterator[None]:
    """Numbers that a model makes up as it runs are in float64 too."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _refuse_difference(found: Tensor, expected: Tensor, what: str) -> None:
    difference = float((found - expected).abs().max() / expected.abs().max().clamp(min=1e-9))
    if not difference <= 10 * SAME:
        raise CheckError(f"{what} differs from what it gives by itself by {difference:.2g} of the largest.")


def state_of(network: nn.Module) -> list[Any]:
    """All that a run must leave as it was."""
    modules = list(network.modules())
    hooks = [hook for module in modules for hook in (*module._forward_hooks.values(), *module._forward_pre_hooks.values())]
    implementations = [config._attn_implementation_internal for config in _configs(network)]
    weights = [(name, tensor.clone()) for name, tensor in network.state_dict().items()]
    return [modules, hooks, implementations, [module.training for module in modules], weights]


def check_unchanged(before: list[Any], after: list[Any]) -> None:
    """Refuse a network that is not as it was."""
    weights = zip(before[-1], after[-1], strict=True)
    same = all(name == other and torch.equal(own, others) for (name, own), (other, others) in weights)
    if before[:-1] != after[:-1] or not same:
        raise CheckError("the model is not as it was before.")


def _configs(network: nn.Module) -> Iterator[PreTrainedConfig]:
    found = (getattr(module, "config", None) for module in network.modules())
    return (config for config in found if isinstance(config, PreTrainedConfig))
