"""What the effect of attention goes through: the part of a value that is constant, its token's, or its context's."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from identiformer.equations.effects.parts import PARTS, ValueParts, absolute_shares, keep_plan, part_effects
from identiformer.errors import InputError, UnsupportedModelError
from identiformer.measures.effective import check_budget
from identiformer.measures.effects.effects import DRAWS, Effects
from identiformer.measures.heads.heads import REMEDY, Heads
from identiformer.measures.heads.table import token_coordinates
from identiformer.measures.indices import Indices
from identiformer.models import Model
from identiformer.models.attention.call import Call
from identiformer.models.attention.interface import FUSED, WEIGHTS, recording
from identiformer.models.objective import OutputTarget
from identiformer.options import WEIGHTS_BUDGET
from identiformer.passage import Passage
from identiformer.progress import WorkBar, work_bar
from identiformer.results import describe
from identiformer.texts import Example
from identiformer.texts.sample import SAMPLE
from identiformer.tokens import Tokens
from identiformer.trace import RecordedHead

KEPT = 0.1
"""The share of texts in which a token is kept. At ½ the mean over texts without it would hold half of its context."""
TEXTS = 192
TOKENS_AT_ONCE = 2048
FEWEST = 100
"""Tokens of other texts: from fewer, the mean value depends on which they are."""


@dataclass(frozen=True, eq=False)
class Parts:
    """The parts of all values of a passage, with two halves of the texts apart, from which their error is seen."""

    layers: tuple[tuple[ValueParts, ValueParts], ...]

    def whole(self, head: RecordedHead) -> Tensor:
        """The constant, token and context part of each value of a head (part key width)."""
        return torch.stack(self.halves(head)).mean(0)

    def halves(self, head: RecordedHead) -> list[Tensor]:
        """The same from each half of the texts."""
        return [half.of_value(head.values.float().cpu(), head.group) for half in self.layers[head.layer - 1]]

    def shares(self, head: RecordedHead, gradients: Tensor) -> tuple[Tensor, Tensor]:
        """The absolute share of each part in the effect of each weight (part row key), and the largest part, or -1.

        It is -1, undecided, where the halves of the texts differ in which part is largest.
        """
        weights = head.weights.float().cpu()
        shares = absolute_shares(part_effects(weights, self.whole(head), gradients))
        first, second = (part_effects(weights, half, gradients).abs().argmax(0) for half in self.halves(head))
        return shares, torch.where((first == second) & shares[0].isfinite(), shares.nan_to_num().argmax(0), -1)


def parts_of(passage: Passage, texts: int = TEXTS, progress: bool | WorkBar = False) -> Parts:
    """The parts of all values of a passage, from runs on texts in which most tokens are replaced by those of other texts."""

    def compute() -> Parts:
        with work_bar("resampling the context", progress) as bar:
            return _resampled(passage, texts, bar)

    return passage.once(("value parts", texts), compute)


def value_parts(
    model: Model,
    text: Any,
    pair: str | None = None,
    *,
    target: OutputTarget = None,
    layers: Indices | None = None,
    heads: Indices | None = None,
    queries: Indices | None = None,
    texts: int = TEXTS,
    others: Sequence[str | Example] = (),
    draws: int = DRAWS,
    kind: str | None = None,
    truncate: bool = False,
    seed: int = 0,
    progress: bool = False,
) -> xr.Dataset:
    """Split the effect of every attention weight into what goes through the constant, token and context part of the value.

    The values of the text are compared with those in other texts that keep each token with probability 0.1 and otherwise have a
    token of other texts in its place. Their mean where the key's own token is replaced is the constant part of its value; the
    mean where it is kept, minus that, the token's part; the rest, which other tokens of this text decide, the context's. The
    three add up to the value, so the effect a_ij·⟨v_j, g_i⟩ is the sum of three.

    Parameters
    ----------
    model : Model
    text : str, Answer, Trace or Passage
        A text or an answer of the model, as in `Model.trace`.
    pair : str, optional
        The second text of a pair.
    target, draws, kind, truncate
        As in `weight_effects`.
    layers, heads, queries : int or sequence of int, optional
        Which to return; all by default.
    texts : int
        Resampled texts, each one forward pass: 64 for a draft. Half of them estimate the error.
    others : sequence of str or Example, optional
        Texts whose tokens replace those of this one, such as the rest of a corpus; by default a sample of English texts.
    seed : int
        Of the resampling and of the draws.
    progress : bool
        Show a progress bar.

    Returns
    -------
    xarray.Dataset
        Over (layer, head, query, key): `constant`, `token` and `context`, the sizes of the parts of the effect as shares of their
        sum; and `part`, the largest as an index into these, or -1 where the halves of the texts do not agree on it.

    Examples
    --------
    >>> import identiformer as idf
    >>> parts = idf.value_parts(idf.load("minilm"), "He said that the pie was his.", layers=1, texts=20)
    >>> bool(parts.token.mean() > parts.context.mean())  # in layer 1, a value depends on no other token
    True
    """
    passage = Passage.of(model, text, pair, truncate=truncate, kind=kind, seed=seed)
    if others:
        passage = passage.view(others=tuple(other if isinstance(other, Example) else Example(other) for other in others))
    chosen = Heads.of(passage, layers, heads, queries)
    check_budget(16 * prod(chosen.shape), model.memory, REMEDY)
    effects, parts = Effects.of(passage, target, draws), parts_of(passage, texts, progress)
    arrays = np.full((len(PARTS), *chosen.shape), np.nan, np.float32)
    largest = np.full(chosen.shape, -1, np.int8)
    for head in chosen:
        at = chosen.layers.index(head.layer), chosen.heads.index(head.head)
        shares, part = parts.shares(head, effects.at(head, chosen.rows))
        arrays[:, *at], largest[at] = shares.numpy(), part.numpy()
    dims = ("layer", "head", "query", "key")
    variables = {name: (dims, array) for name, array in zip(PARTS, arrays, strict=True)} | {"part": (dims, largest)}
    coordinates = {"layer": chosen.layers, "head": chosen.heads, **token_coordinates(chosen)}
    settings = {"kind": chosen.stack.kind, "target": target, "objective": effects.objective.title, "texts": texts, "seed": seed}
    return describe(xr.Dataset(variables, coordinates), "value_parts", passage.source, settings)


def _resampled(passage: Passage, texts: int, bar: WorkBar) -> Parts:
    if texts < 4:
        raise InputError(f"expected at least 4 resampled texts, got {texts}.")
    others = other_tokens(passage)
    if len(others) < FEWEST:
        raise InputError(
            f"expected other texts with at least {FEWEST} tokens, to draw from, got {len(others)}; pass more of them as others=."
        )
    kind, batch = passage.stack.kind, passage.batch
    name = "decoder_input_ids" if kind == "decoder" else "input_ids"
    if name not in batch.inputs:
        raise UnsupportedModelError("the values of an image or audio have no tokens to replace; their parts cannot be computed.")
    tokens = batch.tokens(kind, 0)[1]
    generator = torch.Generator().manual_seed(passage.seed)
    fixed = torch.tensor([special or span == "template" for special, span in zip(tokens.special, _spans(tokens), strict=True)])
    own = batch.inputs[name][0]
    starts = torch.randint(len(others), (texts,), generator=generator)
    drawn = others[(starts[:, None] + torch.arange(len(own))) % len(others)]
    keep = torch.cat([keep_plan(len(own), count, KEPT, generator) for count in (texts - texts // 2, texts // 2)]) | fixed
    ids = torch.where(keep, own, drawn)
    means = [_Means(), _Means()]
    bar.expect(texts)
    halves = torch.tensor([0] * (texts - texts // 2) + [1] * (texts // 2))
    for some in torch.arange(texts).split(max(1, TOKENS_AT_ONCE // len(own))):
        for layer, values in enumerate(_values(passage, {name: ids[some]}, kind)):
            for half, mean in enumerate(means):
                mine = halves[some] == half
                mean.add(layer, values[mine], keep[some][mine])
        bar.advance(len(some))
    return Parts(tuple(zip(*(mean.parts(fixed) for mean in means), strict=True)))


class _Means:
    """Sums of the values of each layer over texts that keep a token, and over those that replace it."""

    def __init__(self) -> None:
        self._sums: dict[int, Tensor] = {}
        self._counts: dict[int, Tensor] = {}

    def add(self, layer: int, values: Tensor, keep: Tensor) -> None:
        """Values (text group key width) and which tokens each text keeps (text key)."""
        chosen = torch.stack([~keep, keep]).double()
        self._sums[layer] = self._sums.get(layer, 0) + torch.einsum("ctk,tgkw->cgkw", chosen, values.double())
        self._counts[layer] = self._counts.get(layer, 0) + chosen.sum(1)

    def parts(self, fixed: Tensor) -> list[ValueParts]:
        """The means, one pair per layer; of tokens that are always kept, both are the mean over all texts."""
        found = []
        for layer, total in self._sums.items():
            replaced, kept = total / self._counts[layer].clamp(min=1)[:, None, :, None]
            replaced = torch.where(fixed[:, None], kept, replaced)
            found.append(ValueParts(replaced.float(), kept.float()))
        return found


def _values(passage: Passage, changed: dict[str, Tensor], kind: str) -> list[Tensor]:
    """The values (text group key width) of each layer of several texts that differ in their tokens."""
    model, batch = passage.model, passage.batch
    copies = len(next(iter(changed.values())))
    inputs = {name: tensor.repeat_interleave(copies, 0) for name, tensor in batch.inputs.items()} | changed
    values: list[Tensor] = []

    def receive(call: Call) -> None:
        values.append(call.value.float().cpu())

    fused = model.weights_size(batch.longest) * copies > WEIGHTS_BUDGET // 8
    try:
        with recording(replica := model.replica(), FUSED if fused else WEIGHTS, receive):
            model.forward(replica, inputs)
    except UnsupportedModelError:
        if not fused:
            raise
        values.clear()
        with recording(replica := model.replica(), WEIGHTS, receive):
            model.forward(replica, inputs)
    return [value for value, site in zip(values, model.sites(batch), strict=True) if site.kind == kind]


def can_resample(passage: Passage) -> bool:
    """Whether the passage has tokens that can be replaced, and enough others are known in their place."""
    return "input_ids" in passage.batch.inputs and len(other_tokens(passage)) >= FEWEST


def other_tokens(passage: Passage) -> Tensor:
    """The tokens of other texts of the corpus, or of the sample that comes with the package, one after another."""
    tokens = list(passage.tokens_of_others)
    if not tokens:
        tokenizer = passage.model.tokenizer
        encoded = tokenizer.encode(SAMPLE, add_special_tokens=False, verbose=False)
        tokens = [token for token in encoded if token != tokenizer.unk_token_id]
    return torch.tensor(tokens)


def _spans(tokens: Tokens) -> Any:
    return tokens.span_names or [""] * len(tokens)
