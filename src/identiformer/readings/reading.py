"""What an attention map may be taken to mean, in sentences: the statements that pass all tests, and those that fail one."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import xarray as xr

from identiformer.measures.heads.statements import Sink, Statement
from identiformer.readings.effective import heads_to_describe
from identiformer.readings.sentences.output import output_sentences
from identiformer.readings.sentences.patched_run import sink_effects_sentence

WRITERS = 2
"""How many heads of a layer the table shows."""
FAILURES = {
    "free": "Free: attention with the same output need not have the largest part of the weight",
    "noncontributing": "Noncontributing: the largest part of the weight does not contribute to the output",
    "mixed": "Mixed: the largest part of the weight contributes, but is attributed to tokens other than the key",
}
"""Why a statement fails a test, by category."""


@dataclass(frozen=True)
class TableRow:
    """How much of the weight of one head passes each test, or, where `head` is None, the mean over a layer's heads."""

    SHARES: ClassVar = ("output_share", "certified", "contributing", "readable", "sink_share")

    layer: int
    head: int | None
    output_share: float
    """How much of the layer's output the head writes."""
    certified: float
    contributing: float
    readable: float
    sink_share: float


def _shares(numbers: xr.Dataset) -> dict[str, float]:
    return {name: float(numbers[name]) for name in TableRow.SHARES}


@dataclass(frozen=True)
class Reading:
    """The reading of one text, made by `read`: `result` holds every number, and `sentences()` says what they mean."""

    result: xr.Dataset
    sinks: tuple[Sink, ...] = ()
    holding: tuple[Statement, ...] = ()
    """The statements that pass all tests best, one per head; their queries are special tokens only if there are no others."""
    failing: tuple[Statement, ...] = ()
    """The largest weights that fail a test, likewise."""
    effective: xr.Dataset | None = None
    """The `effective_attention` of all heads, without matrices."""
    patterns: xr.Dataset | None = None
    """Their `attention_patterns`, where all weights are recorded."""
    width: int = 0
    """The dimensions of a head's output."""
    certificates: tuple[xr.Dataset, ...] = ()
    """Of the heads that are described, where they were certified."""
    finished: bool = False
    """Whether self-contributions that are still unknown will remain so."""
    shown: xr.Dataset | None = None
    """Every map of the head that is shown as an example."""
    large: Mapping[tuple[int, int], tuple[np.ndarray, ...]] = field(default_factory=dict)
    """By layer and head with bounds: row, key, weight and lower bound of each large weight."""
    strongest: xr.Dataset | None = None
    """The `strongest_weights` of the text for its target."""
    idle: xr.Dataset | None = None
    """Its `idle_attention`."""
    received: xr.Dataset | None = None
    """Of an answer: the attention of the rows that predicted its tokens to each key, over all heads."""

    @property
    def certified(self) -> bool:
        """Whether certified bounds were computed."""
        return bool(json.loads(self.result.attrs["settings"])["certified"])

    @property
    def chosen(self) -> dict[str, list[int]]:
        """The layers and heads that were read; nothing if all were."""
        names = {"layers": "layer", "heads": "head"}
        return {} if not self._heads() else {name: self.result[axis].values.tolist() for name, axis in names.items()}

    @property
    def described(self) -> list[tuple[int, int]]:
        """The heads whose raw and effective attention differ most, among those that were read."""
        return [] if self.effective is None else heads_to_describe(self.effective, **self.chosen)

    @property
    def interrupted(self) -> bool:
        """Whether some heads were not certified because the computation was interrupted."""
        return not self.result.attrs["complete"]

    def table(self) -> list["TableRow"]:
        """The mean of each layer's heads, and the heads that write most of its output."""
        rows = []
        for number in self.result["layer"].values.tolist():
            layer = self.result[list(TableRow.SHARES)].sel(layer=number)
            writers = layer.output_share.argsort().values[::-1][:WRITERS]
            rows.append(TableRow(number, None, **_shares(layer.mean("head")) | {"output_share": 1.0}))
            rows += [TableRow(number, int(layer["head"][head]), **_shares(layer.isel(head=head))) for head in writers]
        return rows

    def sentences(self) -> list[str]:
        """The findings as sentences."""
        sinks = (sentence for sink in self.sinks for sentence in sink_sentences(sink, self.certified))
        return [*self.dependence(), *self.overview(), *sinks]

    def dependence(self) -> list[str]:
        """What the output depends on: the prediction, how much attention is idle for it, and the weight that matters most."""
        return output_sentences(self.strongest, self.idle)

    def overview(self) -> list[str]:
        """How much of the attention passes each test, over the heads that were read."""
        result = self.result
        done = result.certified.notnull()
        heads, total = int(done.sum()), done.size
        if not heads:
            return [f"None of the {total} heads was certified before the computation was interrupted."]
        certified, contributing, readable = (float(result[name].mean()) for name in ("certified", "contributing", "readable"))
        of = f"the attention{self._heads()} on these {result.sizes['key']} tokens{self._rows()}"
        partly = [] if heads == total else [f"{heads} of {total} heads were certified before the computation was interrupted."]
        unknown = bool(result.self_contribution.isnull().any())
        own_content = "" if unknown else f", and {readable:.0%} is also attributed to the token it points to"
        if self.certified:
            first = (
                f"Of {of}, {certified:.0%} is certified (present in every row with the same output), {contributing:.0%} also "
                f"contributes to what its head writes{own_content}."
            )
        else:
            first = f"Before certification: of {of}, at most {contributing:.0%} contributes to what its head writes{own_content}."
        zero = int(result.zero_rows.sum())
        undefined = [f"In {zero} rows the head's output is zero, so contributions are undefined there."] if zero else []
        why = "not computed yet"
        if self.finished:
            why = "unknown: it cannot be computed for this attention, or not in this memory (--memory)"
        unattributed = [f"To which tokens that is attributed is {why}."] if unknown else []
        unprojected = json.loads(result.attrs["settings"])["output"] == "values"
        before = ["The output projection of this model is unknown; contributions are those to the output before it."]
        return [first, *partly, *unattributed, *undefined, *(before if unprojected else [])]

    def _heads(self) -> str:
        """Which heads were read, if not all."""
        layers, heads = (self.result[name].values.tolist() for name in ("layer", "head"))
        read, total = len(layers) * len(heads), json.loads(self.result.attrs["settings"]).get("heads")
        if total in (read, None):  # None in results of earlier versions
            return ""
        return f" of layer {layers[0]}, head {heads[0]}" if read == 1 else f" of {read} of {total} heads"

    def _rows(self) -> str:
        """Which rows were read, if not all."""
        rows, last = self.result["query"].values.tolist(), self.result.sizes["key"] - 1
        which = json.loads(self.result.attrs["settings"]).get("rows", "all")
        if which == "all":
            return ""
        if which == "as many as fit":
            return f" in {len(rows)} evenly spaced rows, as many as fit into memory (more with --memory, load(…, memory=))"
        if "token_ids" in self.result.attrs and rows == list(range(rows[0], last)):
            return f" in the {len(rows)} rows that predict the answer"
        return f" in {len(rows)} chosen {'row' if len(rows) == 1 else 'rows'}"


def sink_sentences(sink: Sink, certified: bool) -> list[str]:
    """What a sink does, and what the interventions on it changed."""
    part = f"{sink.certified:.0%} is certified, but contributes" if certified else "It contributes"
    first = (
        f"Layer {sink.layer}, head {sink.head} puts {sink.weight:.0%} of its weight on ‘{sink.key_token}’. {part} "
        f"{round(sink.contribution, 2) + 0:.0%} of the output: a sink, which scales the rest by {sink.scale:.2f}."
    )
    return [first] if sink.effects is None else [first, sink_effects_sentence(sink.effects)]
