"""Check each capability on one model, by comparison with an untouched copy of it that runs without being recorded."""

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import jvp
from transformers import PreTrainedConfig

from identiformer.equations.attention.heads import per_head
from identiformer.errors import InputError, ModelError
from identiformer.measures.attention.ambiguity import ambiguity
from identiformer.measures.attribution.hidden_token import token_attribution
from identiformer.measures.identifiability.tokens import token_identifiability
from identiformer.models import Model, load
from identiformer.models.attention.call import Call
from identiformer.models.attention.interface import WEIGHTS, recording
from identiformer.models.attention.sites import attention_kind
from identiformer.models.blocks.module_states import hidden_states_of
from identiformer.models.derivatives.input_function import InputFunction
from identiformer.models.derivatives.input_site import embedding_of, first_inputs
from identiformer.models.derivatives.tangents import TorchPushforward, agreement
from identiformer.models.encoding.image_audio import random_audio, random_image, takes_audio, takes_images
from identiformer.models.encoding.text import Batch
from identiformer.models.interventions.patching import Change
from identiformer.support.tiny_models import tiny_tokenizer, tiny_words
from identiformer.trace import RecordedLayer, Trace

SAME = 1e-5
"""Difference of attention weights, or of numbers relative to the largest, that float32 leaves between two computations."""

STEPS, DIFFERENCE = (1e-3, 1e-4, 1e-5), 3e-3
"""Step sizes of finite differences, and how close the best of them must be. A large step may cross to other experts, a small one
is lost in rounding, because many families always compute parts in float32. A wrong derivative is close to none of them."""

RETURNED = {"self": "attentions", "encoder": "encoder_attentions", "decoder": "decoder_attentions", "cross": "cross_attentions"}


class CheckError(ModelError):
    """The record does not match what the model computes."""


@dataclass
class Subject:
    """A model under test, an input for it, and what the check of its trace found."""

    model: Model
    content: Any
    pair: str | None
    reads: str
    trace: Trace = field(init=False)
    compared: bool = False
    kinds: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, network: Any) -> "Subject":
        """Load a network with the tiny tokenizer and make an input for it."""
        model = load(network, tiny_tokenizer())
        pair = tiny_words(5, 3) if network.config.is_encoder_decoder else None
        if takes_images(network):
            return cls(model, random_image(network), None, "image")
        if takes_audio(network):
            return cls(model, random_audio(network), pair, "audio")
        return cls(model, tiny_words(12), pair, "text")


def _check_trace(subject: Subject) -> None:
    model = subject.model
    trace = model.trace(subject.content, subject.pair)
    batch = model.encode(subject.content, subject.pair, False)
    compared = _check_weights(model, batch, trace)
    _check_head_outputs(model, batch, trace)
    if subject.reads == "text":
        _check_padding(subject, trace)
    subject.trace, subject.compared = trace, compared
    subject.kinds = {stack.kind: len(stack.layers) for stack in trace.stacks}


def _check_weights(model: Model, batch: Batch, trace: Trace) -> bool:
    """Compare the recorded weights with those that an untouched copy returns; False if it returns none to compare."""
    network = copy.deepcopy(model.backbone)
    for config in _configs(network):
        config._attn_implementation_internal = "eager"
    try:
        with torch.no_grad():
            result = model.forward(network, batch.inputs, output_attentions=True)
    except (TypeError, ValueError, NotImplementedError):  # it does not know output_attentions
        return False
    compared = 0
    for stack in trace.stacks:
        recorded = [layer.weights for layer in stack.layers if isinstance(layer, RecordedLayer)]
        returned = getattr(result, RETURNED[stack.kind], None) or getattr(result, "attentions", None) or ()
        # A hybrid may return something for its other layers too, in other shapes, and a window as a band.
        shapes = {weights.shape for weights in recorded}
        comparable = [weights for weights in returned if weights is not None and weights[0].shape in shapes]
        if len(comparable) != len(recorded):
            if comparable:
                raise CheckError(f"recorded {len(recorded)} {stack.kind} layers, but the model returns {len(comparable)}.")
            continue
        for number, (weights, expected) in enumerate(zip(recorded, comparable, strict=True), 1):
            # SqueezeBERT returns its scores.
            difference = min(float((weights - other).abs().max()) for other in (expected[0], expected[0].softmax(-1)))
            if not difference <= SAME:
                raise CheckError(f"recorded weights of layer {number} differ from the model's own by {difference:.2g}.")
            compared += 1
    return compared > 0


def _check_head_outputs(model: Model, batch: Batch, trace: Trace) -> None:
    """Check that A·V equals the head outputs that the model uses, and that recording does not change the model's output."""
    outputs: dict[str, list[Tensor]] = {stack.kind: [] for stack in trace.stacks}
    kinds = [attention_kind(site.path, model.network.config.is_encoder_decoder) for site in model.sites(batch)]

    def on_call(call: Call) -> None:
        kind = kinds[sum(map(len, outputs.values()))]
        outputs[kind].append(call.output[0].transpose(0, 1))

    replica = model.replica()
    with recording(replica, WEIGHTS, on_call):
        recorded = model.forward(replica, batch.inputs)
    for stack in trace.stacks:
        for layer, output in zip((layer.recorded() for layer in stack.layers), outputs[stack.kind], strict=True):
            product = layer.weights.to(layer.values) @ per_head(layer.values, layer.heads)
            _require_equal(product, output[:, : product.shape[1]], f"A·V of {stack.kind} layer {layer.number}")
    with torch.no_grad():
        plain = model.forward(model.replica(), batch.inputs)
    _require_equal(recorded[0], plain[0], "the model's output during recording")


def _check_padding(subject: Subject, unpadded: Trace) -> None:
    pairs = None if subject.pair is None else [subject.pair, tiny_words(8)]
    padded = subject.model.trace([subject.content, tiny_words(15, 3)], pairs)[0]
    for one, other in zip(_layers(unpadded), _layers(padded), strict=True):
        difference = float((one.weights - other.weights).abs().max())
        if not difference <= 10 * SAME:
            raise CheckError(f"padding changes the attention of layer {one.number} by {difference:.2g}.")


def _layers(trace: Trace) -> Iterator[RecordedLayer]:
    return (layer.recorded() for stack in trace.stacks for layer in stack.layers)


def _check_effective(subject: Subject) -> None:
    """Check that A⊥T = AT, with T = VH where the output projection is known."""
    for layer in _layers(subject.trace):
        values = per_head(layer.transmitted_values().double(), layer.heads)
        if layer.projection is not None and values.shape[-1] == layer.projection.shape[1]:
            values = values @ layer.projection.double()
        raw, effective = layer.weights.double() @ values, layer.effective().matrices().double() @ values
        _require_equal(effective, raw, f"the output of effective attention in layer {layer.number}")


def _check_ambiguity(subject: Subject) -> None:
    for stack in subject.trace.stacks:
        result = ambiguity(subject.trace, 1, 0, queries=len(stack.queries) - 1, kind=stack.kind)
        raw, low, high = (torch.as_tensor(result[name].values) for name in ("raw", "low", "high"))
        if bool(((raw < low - SAME) | (raw > high + SAME)).any()):
            raise CheckError(f"weights of {stack.kind} layer 1 are outside their certified intervals.")


def _check_rerun(subject: Subject) -> None:
    trace = subject.trace
    for stack in trace.stacks:
        layer = stack.layers[0].recorded()
        tensor = None if subject.reads == "text" else subject.content

        def run(weights: Tensor, tensor: Tensor | None = tensor, kind: str = stack.kind) -> Change:
            return subject.model.rerun(trace, {(1, 0): weights}, kind=kind, allow_non_simplex=True, tensor=tensor).output

        on_first_key = torch.zeros_like(layer.weights[0])
        on_first_key[torch.arange(len(on_first_key)), layer.visible.start] = 1
        same, other = run(layer.weights[0]), run(on_first_key)
        if not same.patched <= 10 * SAME * same.scale:
            raise CheckError(f"patching in the model's own weights changes the output by {same.patched:.2g}.")
        if not other.patched > other.floor:
            raise CheckError("patching other attention into the first head changes nothing.")


def _check_attribution(subject: Subject) -> None:
    """Check derivatives in forward mode, one and many at once, and that contributions in reverse mode sum to one."""
    content = tiny_words(4) if subject.reads == "text" else subject.content
    function, _, _ = subject.model.input_function(content)
    with torch.no_grad():
        _check_derivatives(function)
        if not agreement(function)(TorchPushforward.direct(function, heads=False)):
            raise CheckError("derivatives of a batch of changes differ from those of one change.")
    result = token_attribution(subject.model, content, exact=True, layers=[len(function.widths)], targets=[1])
    error = float(abs(result.contribution.sum("source") - 1).max())
    if not error <= 10 * SAME:
        raise CheckError(f"the sum of contributions differs from one by {error:.2g}.")


def _check_derivatives(function: InputFunction) -> None:
    """Compare derivatives with finite differences of an untouched copy, as the embedding of one token moves.

    The hidden states must move as x moves with the embedding; an embedding that reaches them in other ways too is noticed.
    """
    network = copy.deepcopy(function.network).double()
    for config in _configs(network):
        config._experts_implementation_internal = "eager"  # the only one that supports float64
    embedding = embedding_of(network)
    if embedding is None or "input_ids" not in function.inputs or function.family == "ibert":  # which rounds its embeddings
        return
    site = network.get_submodule(next(name for name, module in function.network.named_modules() if module is function.site))
    within_embedding = site in embedding.modules()

    def run(step: float) -> tuple[Tensor, Tensor]:
        """Return x and the last hidden states with the embedding of one token moved in a random direction."""
        embedded: list[Tensor] = []

        def move(original: Any) -> Tensor:
            vectors = original.reshape(-1, original.shape[-1]).clone()  # in some families positions are the first axis
            direction = torch.randn(vectors.shape[-1], generator=torch.Generator().manual_seed(0))
            vectors[len(function.x) // 2] += step * direction / direction.norm()
            embedded.append(vectors.view_as(original))
            return embedded[-1]

        if within_embedding and not function.at_output:  # an embedding that normalizes its vectors itself
            hook = site.register_forward_pre_hook(lambda _, arguments: move(arguments[0]))
        else:
            hook = embedding.register_forward_hook(lambda _, __, output: move(output))
        with hook, first_inputs([site]) as inputs, torch.no_grad():
            states = hidden_states_of(network(**function.inputs, output_hidden_states=True))[-1][0]
        return (embedded[0] if within_embedding else inputs[site]).view(function.x.shape), states

    precise = replace(function, network=network, site=site, x=function.x.double())

    def difference(step: float) -> float:
        (forward, states_forward), (backward, states_backward) = run(step), run(-step)
        change, expected = (forward - backward) / (2 * step), (states_forward - states_backward) / (2 * step)
        tangent = jvp(lambda change: precise.run(change).hidden[-1], (precise.no_change,), (change,))[1]
        return float((tangent - expected).norm() / expected.norm())

    with ExitStack() as restored:
        restored.callback(torch.set_default_dtype, torch.get_default_dtype())
        torch.set_default_dtype(torch.float64)  # for constants that a model creates
        smallest = min(difference(step) for step in STEPS)
    if not smallest <= DIFFERENCE:
        raise CheckError(f"derivatives differ from finite differences of the model by {smallest:.2g} of their size.")


def _check_identifiability(subject: Subject) -> None:
    if subject.reads != "text":
        raise InputError(f"expected a model that reads text, got one that reads {subject.reads} input.")
    corpus = [tiny_words(5, start) for start in range(20)]
    result = token_identifiability(subject.model, corpus, methods=["linear l2"], resplits=1)
    if not bool(((result.rate >= 0) & (result.rate <= 1)).all()):
        raise CheckError("recovery rates are not between 0 and 1.")


CHECKS: Mapping[str, Callable[[Subject], None]] = {
    "trace": _check_trace,
    "effective attention": _check_effective,
    "ambiguity": _check_ambiguity,
    "re-run": _check_rerun,
    "attribution": _check_attribution,
    "identifiability": _check_identifiability,
}
"""The check of each capability; it raises unless the capability works."""
NEED_TRACE = ("effective attention", "ambiguity", "re-run")


def _require_equal(value: Tensor, expected: Tensor, what: str) -> None:
    difference = float((value - expected).abs().max() / expected.abs().max().clamp(min=1e-9))
    if not difference <= 10 * SAME:
        raise CheckError(f"{what} differs from the model's own by {difference:.2g} of the largest.")


def state_of(network: nn.Module) -> list[Any]:
    """Return everything about a network that a run must not change."""
    modules = list(network.modules())
    hooks = [hook for module in modules for hook in (*module._forward_hooks.values(), *module._forward_pre_hooks.values())]
    implementations = [config._attn_implementation_internal for config in _configs(network)]
    weights = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    return [modules, hooks, implementations, [module.training for module in modules], list(weights), weights]


def check_unchanged(before: list[Any], after: list[Any]) -> None:
    """Raise CheckError unless two results of `state_of` are equal."""
    if before[:-1] != after[:-1] or not all(map(torch.equal, before[-1].values(), after[-1].values())):
        raise CheckError("the checks have changed the model.")


def _configs(network: nn.Module) -> Iterator[PreTrainedConfig]:
    configs = (getattr(module, "config", None) for module in network.modules())
    return (config for config in configs if isinstance(config, PreTrainedConfig))
