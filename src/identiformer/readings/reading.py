"""What an attention map may be taken to mean, in sentences: the statements that hold up, and those that do not."""

import json
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np
import xarray as xr
from torch import Tensor

from identiformer.equations.certificates.contributions import CATEGORIES
from identiformer.errors import UnsupportedModelError
from identiformer.measures.attention.reading import SINK_SHARE, attention_reading, with_agreement
from identiformer.measures.attention.sinks import SinkEffects, sink_effects
from identiformer.measures.attribution.hidden_token import token_attribution
from identiformer.measures.attribution.value_zeroing import value_zeroing
from identiformer.measures.indices import Indices, select_indices
from identiformer.models import Answer, Model, Text
from identiformer.progress import WorkBar
from identiformer.trace import RecordedLayer, Trace
from identiformer.typed_json import finite_or_null

STATEMENTS = 10
WRITERS = 2
"""How many heads of a layer the table shows."""
SINKS = 3
"""How many sinks are tested by interventions."""
DIRECTIONS = 2
"""For self-contributions, whose error is then about 0.01: a reading needs no more."""
FAILURES = {
    "free": "Free: attention with the same output need not have this weight",
    "sink": "Sink: most of the weight does not contribute to the output",
    "mixed": "Mixed: what it contributes comes mostly from other tokens",
}
"""Why a statement does not hold up, by category."""


@dataclass(frozen=True)
class Statement:
    """'Query attends to key' in one head, and how far it holds up."""

    layer: int
    head: int
    query: int
    query_token: str
    key: int
    key_token: str
    weight: float
    certified: float
    contribution: float
    own_content: float
    readable: float
    category: str

    @property
    def pair(self) -> str:
        """The query and the key, with their positions."""
        return f"‘{self.query_token}’ {self.query} → ‘{self.key_token}’ {self.key}"


@dataclass(frozen=True)
class Sink:
    """The attention sink of one head: means over all rows."""

    layer: int
    head: int
    key: int
    key_token: str
    weight: float
    certified: float
    contribution: float
    scale: float
    effects: SinkEffects | None = None

    def sentences(self, certified: bool) -> list[str]:
        """What the sink does, and what the interventions on it changed."""
        part = f"{self.certified:.0%} is certified, but contributes" if certified else "It contributes"
        first = (
            f"Layer {self.layer}, head {self.head} puts {self.weight:.0%} of its weight on ‘{self.key_token}’. {part} "
            f"{round(self.contribution, 2) + 0:.0%} of the output: a sink, which scales the rest by {self.scale:.2f}."
        )
        return [first] if self.effects is None else [first, self.effects.sentence()]


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
    sinks: tuple[Sink, ...]
    holding: tuple[Statement, ...]
    """The statements that hold up best, one per head; their queries are special tokens only if there are no others."""
    failing: tuple[Statement, ...]
    """The largest weights that do not hold up, likewise."""

    @property
    def certified(self) -> bool:
        """Whether certified bounds were computed."""
        return bool(json.loads(self.result.attrs["settings"])["certified"])

    @property
    def interrupted(self) -> bool:
        """Whether some heads were not certified because the computation was interrupted."""
        return bool(self.result.certified.isnull().any())

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
        return [*self.overview(), *(sentence for sink in self.sinks for sentence in sink.sentences(self.certified))]

    def overview(self) -> list[str]:
        """How much of the attention passes each test, over all heads."""
        result = self.result
        done = result.certified.notnull()
        heads, total = int(done.sum()), done.size
        if not heads:
            return [f"None of the {total} heads was certified before the computation was interrupted."]
        certified, contributing, readable = (float(result[name].mean()) for name in ("certified", "contributing", "readable"))
        of = f"the attention on these {result.sizes['key']} tokens{self._rows()}"
        partly = [] if heads == total else [f"{heads} of {total} heads were certified before the computation was interrupted."]
        unknown = bool(result.self_contribution.isnull().any())
        own_content = "" if unknown else f", and {readable:.0%} is also about the token it points to"
        if self.certified:
            first = (
                f"Of {of}, {certified:.0%} is certified (present in every row with the same output), {contributing:.0%} also "
                f"contributes to what its head writes{own_content}."
            )
        else:
            first = f"Before certification: of {of}, at most {contributing:.0%} contributes to what its head writes{own_content}."
        zero = int(result.contribution.isnull().all("key").sum()) if "contribution" in result else 0
        undefined = [f"In {zero} rows the head's output is zero, so contributions are undefined there."] if zero else []
        unprojected = json.loads(result.attrs["settings"])["output"] == "values"
        before = ["The output projection of this model is unknown; contributions are those to the output before it."]
        return [first, *partly, *undefined, *(before if unprojected else [])]

    def where_they_hold_up(self) -> list[str]:
        """Say so if statements hold up in layer 1 only, where every vector is that of its token."""
        result = self.result
        later = result.sel(layer=result["layer"] > 1)
        known = later.sizes["layer"] and later.self_contribution.notnull().all() and later.certified.notnull().all()
        if not self.holding or not known or (later.category == CATEGORIES.index("readable")).any():
            return []
        return ["All are in layer 1: in later layers, no weight is mostly about the token it points to."]

    def _rows(self) -> str:
        """Which rows were read, if not all."""
        rows, last = self.result["query"].values.tolist(), self.result.sizes["key"] - 1
        if json.loads(self.result.attrs["settings"]).get("rows", "all") == "all":
            return ""
        if "token_ids" in self.result.attrs and rows == list(range(rows[0], last)):
            return f" in the {len(rows)} rows that predict the answer"
        return f" in {len(rows)} chosen {'row' if len(rows) == 1 else 'rows'}"

    def as_json(self) -> dict[str, Any]:
        """The findings as JSON data."""
        names = (*TableRow.SHARES, "sink_scale", "sink_key")
        return finite_or_null(
            {
                "sentences": self.sentences(),
                "layers": self.result["layer"].values.tolist(),
                "heads": {name: self.result[name].values for name in names},
                "sinks": [asdict(sink) for sink in self.sinks],
                "holding": [asdict(statement) for statement in self.holding],
                "failing": [asdict(statement) for statement in self.failing],
            }
        )


def read(
    model: Model,
    text: Text,
    pair: str | None = None,
    *,
    layers: Indices | None = None,
    heads: Indices | None = None,
    queries: Indices | None = None,
    tolerance: float | None = None,
    certify: bool = True,
    agreement: bool | None = None,
    directions: int = DIRECTIONS,
    kind: str | None = None,
    truncate: bool = False,
    processes: int | None = None,
    progress: bool = False,
) -> Reading:
    """Read the attention of a text: what it may be taken to mean.

    Each weight is tested: is it certified, does it contribute to what the head writes, and is that the token's own content?
    Sinks are also tested by interventions on the model.

    Parameters
    ----------
    model : Model
    text : str, Answer or Tensor
        A text, an answer of the model, or an image for a vision model, as in `Model.trace`.
    pair : str, optional
        The second text of a pair.
    layers, heads : int or sequence of int, optional
        Which to read; all by default. Layers count from 1, heads from 0.
    queries : int or sequence of int, optional
        Positions of the rows to read. By default all of a text, and of an answer those that predicted its tokens: each is at the
        position before its token. Chosen rows can be read in a text of any length. If the weights of all rows would take more
        than 2 GiB, own content, interventions on sinks and agreement are left out.
    tolerance : float, optional
        Relative change of a head's output that counts as none, as in `ambiguity`.
    certify : bool
        Whether to compute certified bounds; without them a reading takes seconds.
    agreement : bool, optional
        Whether to compare each head with value zeroing, which takes as many forward passes as tokens; by default, if heads are
        certified.
    directions : int
        Random directions per token for self-contributions, as in `token_attribution`.
    kind : str, optional
        Attention type; the first of the model by default.
    truncate : bool
        Truncate a text that is longer than the model accepts.
    processes : int, optional
        Processes that certify heads; one per core by default.
    progress : bool
        Show progress bars.

    Returns
    -------
    Reading
        `result`, the `attention_reading`; `sinks`; `holding` and `failing`, the statements "query attends to key" that hold up
        best and the largest weights that do not; and `sentences()`. With agreement, `result` has `raw_agreement` and
        `contribution_agreement` (layer, head): the mean correlation over rows of a head's weights, and of its contributions,
        with the effects of value zeroing on the layer's output.

    Examples
    --------
    >>> import identiformer as idf
    >>> reading = idf.read(idf.load("minilm"), "He said that the pie was his.", layers=[1, 2], certify=False)
    >>> print(reading.sentences()[0])
    Before certification: of the attention on these 10 tokens, at most ...% contributes to what its head writes, ...
    """
    rows = rows_to_read(text)
    if queries is not None:
        rows = select_indices(queries, model.encode(text, pair, truncate).longest, "query")
    trace = model.trace(text, pair, truncate=truncate, form=None if rows else "weights", rows=rows or ())
    recorded = isinstance(trace.layer(1, kind), RecordedLayer)
    attribution = attribute(model, trace, text, pair, layers, kind, directions, truncate, progress) if recorded else None
    result = attention_reading(
        trace, attribution, layers=layers, heads=heads, queries=rows, tolerance=tolerance, certify=certify, kind=kind,
        processes=processes, progress=progress,
    )  # fmt: skip
    if certify and recorded if agreement is None else agreement:
        with suppress(UnsupportedModelError):  # then agreement is left out
            numbers = result["layer"].values.tolist()
            zeroing = value_zeroing(model, text, pair, layers=numbers, truncate=truncate, progress=progress)
            result = with_agreement(result, trace, zeroing.effect)
    return reading_of(result, model if recorded else None, trace, text if isinstance(text, Tensor) else None)


def rows_to_read(text: Text) -> list[int] | None:
    """The rows of a reading: all of a text, and those that predicted the tokens of an answer."""
    return list(text.positions) if isinstance(text, Answer) else None


def attribute(
    model: Model,
    trace: Trace,
    text: Text,
    pair: str | None,
    layers: Indices | None,
    kind: str | None,
    directions: int,
    truncate: bool,
    progress: bool | WorkBar,
) -> xr.Dataset | None:
    """The attribution of the vectors that keys are made of; None where a model cannot be attributed or nothing needs it."""
    stack = trace.stack(kind)
    chosen = select_indices(layers, len(stack.layers), "layer", first=1)
    if stack.kind == "cross":
        needed = {len(trace.stack("encoder").layers)}  # keys are made of the encoder's output
    else:
        needed = {number - 1 for number in chosen if number > 1 and stack.kind != "decoder"}
    if stack.kind != "self":
        pair = None  # an encoder-decoder is attributed in its encoder
    if not needed:
        return None
    try:
        return token_attribution(
            model, text, pair, layers=sorted(needed), directions=directions, truncate=truncate, progress=progress
        )
    except UnsupportedModelError:
        return None


def reading_of(
    result: xr.Dataset, model: Model | None = None, trace: Trace | None = None, tensor: Tensor | None = None
) -> Reading:
    """The reading of an `attention_reading`; with the model and its trace, sinks are tested by interventions."""
    sinks = _sinks(result)
    if model is not None and trace is not None:
        kind = json.loads(result.attrs["settings"])["kind"]
        sinks = [
            replace(sink, effects=sink_effects(model, trace, sink.layer, sink.head, kind=kind, tensor=tensor)) for sink in sinks
        ]
    ordinary = ~result.query_special.values
    stated = result.certified.notnull().values[..., None, None] & (ordinary if ordinary.any() else ~ordinary)[:, None]
    category = result.category.values
    holding = _best(result.readable_weight.values, stated & (category == CATEGORIES.index("readable")))
    failing = _best(result.weight.values, stated & np.isin(category, range(len(FAILURES))))
    return Reading(
        result,
        tuple(sinks),
        tuple(_statement(result, *index) for index in holding),
        tuple(_statement(result, *index) for index in failing),
    )


def _best(scores: np.ndarray, candidates: np.ndarray) -> list[tuple[int, ...]]:
    """The indices (layer, head, query, key) of the largest score of each head, for the heads in which it is largest."""
    flat = np.where(candidates, np.nan_to_num(scores), -1.0).reshape(*scores.shape[:2], -1)
    best = flat.max(-1)
    order = np.argsort(-best, axis=None, kind="stable")[:STATEMENTS]
    places = [np.unravel_index(int(index), best.shape) for index in order if best.flat[index] > 0]
    inside = [np.unravel_index(int(flat[place].argmax()), scores.shape[2:]) for place in places]
    return [tuple(map(int, (*place, *entry))) for place, entry in zip(places, inside, strict=True)]


def _statement(result: xr.Dataset, layer: int, head: int, query: int, key: int) -> Statement:
    entry = result.isel(layer=layer, head=head, query=query, key=key)
    return Statement(
        layer=int(entry["layer"]),
        head=int(entry["head"]),
        query=int(entry["query"]),
        query_token=str(entry.query_token.values),
        key=key,
        key_token=str(entry.key_token.values),
        weight=float(entry.weight),
        certified=float(entry.low),
        contribution=float(entry.contribution),
        own_content=float(entry.self_contribution),
        readable=float(entry.readable_weight),
        category=CATEGORIES[int(entry.category)],
    )


def _sinks(result: xr.Dataset) -> list[Sink]:
    """The heads with most weight on sinks."""
    share = result.sink_share.values
    order = [np.unravel_index(index, share.shape) for index in np.argsort(-share, axis=None, kind="stable")[:SINKS]]
    return [_sink(result.isel(layer=layer, head=head)) for layer, head in order if share[layer, head] >= SINK_SHARE]


def _sink(head: xr.Dataset) -> Sink:
    key = head.isel(key=int(head.sink_key))
    weight = float(key.weight.mean())
    return Sink(
        layer=int(head["layer"]),
        head=int(head["head"]),
        key=int(head.sink_key),
        key_token=str(key.key_token.values),
        weight=weight,
        certified=float(key.low.mean()),
        contribution=float(key.contribution.mean()),
        scale=1 - weight,
    )
