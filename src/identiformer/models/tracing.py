"""Run a model once over a batch, and turn its attention calls into the layers of traces: one example each, without padding."""

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor

from identiformer.equations import Visibility, factor_outputs
from identiformer.equations.attention.heads import per_head
from identiformer.equations.attention.summaries import attention_squared_norms
from identiformer.errors import InputError, UnsupportedModelError
from identiformer.models.attention.call import OTHER_SCORES, Call
from identiformer.models.attention.custom_modules import attends_outside_interface
from identiformer.models.attention.interface import FUSED, WEIGHTS, recording
from identiformer.models.attention.sites import Site
from identiformer.models.encoding.text import Batch
from identiformer.models.loaded import LoadedModel
from identiformer.trace import (
    AttentionLayer,
    AttentionStack,
    FactoredLayer,
    RecomputedWeights,
    RecordedLayer,
    Trace,
    transmitted,
)

Form = Literal["weights", "factored"]

STORED = 2**29
"""Bytes of weights that a trace keeps: of a longer text it computes those of a layer again when they are read."""


def trace_batch(model: LoadedModel, batch: Batch, form: Form | None, raw_norms: bool, rows: Sequence[int]) -> list[Trace]:
    """One trace per example of a batch; see `Model.trace`."""
    if form is None:
        form = "weights" if batch.examples * model.weights_size(batch.longest) <= model.memory else "factored"
    wrong = [row for row in rows if not 0 <= row < batch.longest]
    if wrong:
        raise InputError(f"expected rows from 0 to {batch.longest - 1}, got {wrong[0]}.")
    family = model.backbone.config.model_type
    if form == "factored" and (not model.backbone._supports_sdpa or attends_outside_interface(model.backbone)):
        raise UnsupportedModelError(f"the {family} family has no fused attention; use form='weights' and a shorter text.")
    recorder, replica = Recorder(model.sites(batch), batch, family, raw_norms, rows), model.replica()
    with recording(replica, WEIGHTS if form == "weights" else FUSED, recorder):
        model.forward(replica, batch.inputs)
    return [
        Trace(recorder.stacks(example), model.source(batch, example, form), model.memory) for example in range(batch.examples)
    ]


class Recorder:
    """Receive the attention calls of one forward pass, in order, and keep a layer of each for every example of the batch."""

    def __init__(self, sites: list[Site], batch: Batch, family: str, raw_norms: bool, rows: Sequence[int]) -> None:
        self._sites, self._batch, self._family, self._raw_norms, self._rows = sites, batch, family, raw_norms, rows
        self._kinds = [site.kind for site in sites]
        self._layers: list[dict[str, list[AttentionLayer]]] = [
            {kind: [] for kind in dict.fromkeys(self._kinds)} for _ in range(batch.examples)
        ]
        self._weights: dict[str, Tensor | None] = {}  # (layer batch head query key) by kind; None where layers differ in heads
        self._calls = 0

    def __call__(self, call: Call) -> None:
        """Keep one call."""
        if self._calls == len(self._sites):
            self._reject_count("more")
        site = self._sites[self._calls]
        lengths = [self._batch.lengths(site.kind, example) for example in range(self._batch.examples)]
        _check_positions(call, lengths, self._family)
        weights = None if call.weights is None else self._keep(call, site.kind)
        for example, (queries, keys) in enumerate(lengths):
            layers = self._layers[example][site.kind]
            options = (self._raw_norms, self._rows)
            layers.append(layer_of(call, weights, site, len(layers) + 1, example, queries, keys, *options))
        self._calls += 1

    def _keep(self, call: Call, kind: str) -> Tensor | Callable[[], Tensor] | None:
        """Copy weights into one array per attention type, so that the forward pass can reuse its own memory.

        Of a long text, keep what computes them again instead: queries, keys, values and the mask that layers share.
        """
        weights = call.weights
        layers = self._kinds.count(kind)
        if weights is None or (call.again is not None and self._batch.examples == 1 and weights.nbytes * layers > STORED):
            return call.again
        if kind not in self._weights:
            self._weights[kind] = torch.empty(layers, *weights.shape, dtype=weights.dtype)
        kept = self._weights[kind]
        if kept is None or kept.shape[1:] != weights.shape:
            self._weights[kind] = None
            return weights.cpu()
        return kept[self._kinds[: self._calls].count(kind)].copy_(weights)

    def stacks(self, example: int) -> tuple[AttentionStack, ...]:
        """The layers of one example by attention type, once the forward pass is over."""
        if self._calls != len(self._sites):
            self._reject_count("fewer")
        stacks = []
        for kind, layers in self._layers[example].items():
            queries, keys = self._batch.lengths(kind, example)
            kept = self._weights.get(kind)
            weights = None if kept is None else kept[:, example, :, :queries, :keys]
            stacks.append(AttentionStack(kind, *self._batch.tokens(kind, example), tuple(layers), weights))
        return tuple(stacks)

    def _reject_count(self, difference: str) -> None:
        raise UnsupportedModelError(f"the {self._family} family makes {difference} attention calls on long texts than on short.")


def layer_of(
    call: Call,
    weights: Tensor | Callable[[], Tensor] | None,
    site: Site,
    number: int,
    example: int,
    queries: int,
    keys: int,
    raw_norms: bool,
    rows: Sequence[int],
) -> AttentionLayer:
    """One example of a padded call: recorded if there are weights, otherwise factored."""
    visible = call.visibility(example, queries, keys)
    sink = "sink" in call.extras
    lossy = site.lossy_heads()
    values = call.value[example, :, :keys].cpu()
    if weights is not None:
        is_product = not call.extras & {"softcap", OTHER_SCORES}

        def one(batched: Tensor) -> Tensor:
            return batched[example, :, :queries, :keys]

        return RecordedLayer(
            number,
            visible,
            sink,
            site.stored_projection(),
            one(weights)
            if isinstance(weights, Tensor)
            else RecomputedWeights((call.heads, queries, keys), lambda: one(weights()).cpu()),
            values,
            keys=call.key[example, :, :keys].cpu() if is_product and call.key is not None else None,
            queries=call.query[example, :, :queries].cpu() if is_product and call.query is not None else None,
            scaling=call.scaling,
            lossy_heads=lossy,
            value_bias=site.value_bias(),
        )
    if not bool(torch.isfinite(call.output).all()):
        raise InputError(f"expected finite head outputs, got NaN or infinity at layer {number}; check the model's weights.")
    outputs = call.output[example, :queries].transpose(0, 1).cpu()
    projection = site.projection() if lossy else None  # reading it may take long
    passed_outputs, passed_values = (transmitted(tensor, projection, lossy) for tensor in (outputs, values))
    factored = factor_outputs(passed_outputs, passed_values, visible, values.dtype)
    if not raw_norms and not rows:
        return FactoredLayer(number, sink, factored)
    if call.extras or call.query is None or call.key is None:
        raise UnsupportedModelError(
            f"raw attention cannot be computed where {', '.join(sorted(call.extras))} shapes the weights; use form='weights'."
        )
    query, key = call.query[example, :, :queries].cpu(), call.key[example, :, :keys].cpu()
    norms = attention_squared_norms(query, key, call.scaling, visible) if raw_norms else None
    kept = tuple(row for row in rows if row < queries)  # the attention types of an encoder-decoder differ in length
    if not kept:
        return FactoredLayer(number, sink, factored, norms)
    chosen = torch.tensor(kept)
    chosen_weights = _weights_of(query[:, chosen], key, call.scaling, visible.rows(chosen))
    with_rows = RecordedLayer(
        number, visible.rows(chosen), sink, site.stored_projection(), chosen_weights, values, lossy_heads=lossy
    )
    return FactoredLayer(number, sink, factored, norms, kept, with_rows)


def _weights_of(query: Tensor, key: Tensor, scaling: float, visible: Visibility) -> Tensor:
    """A = softmax(QK^T·scaling) of a few rows, in the precision in which models compute it."""
    scores = (query @ per_head(key, len(query)).mT * scaling).masked_fill_(~visible.dense(), -torch.inf)
    return scores.softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32)).to(query.dtype)


def _check_positions(call: Call, lengths: list[tuple[int, int]], family: str) -> None:
    """Reject attention over anything but the tokens, such as pooled positions, windows, or added prefixes."""
    if len(call.output) != len(lengths):
        raise UnsupportedModelError(
            f"the {family} family splits {len(lengths)} input into {len(call.output)} that attend separately; their positions "
            "cannot be matched to tokens."
        )
    queries, keys = map(max, zip(*lengths, strict=True))
    attending, attended = call.output.shape[1], call.value.shape[2]
    is_padded = call.weights is not None and not bool(call.weights[:, :, :queries, keys:].any())
    if (attending, attended) != (queries, keys) and not (attending >= queries and attended >= keys and is_padded):
        raise UnsupportedModelError(
            f"the {family} family attends from {attending} to {attended} positions where the input has {queries} and {keys}; "
            "they cannot be matched to tokens."
        )
