"""One head's attention put to the test: what a row seems to say, how far it could differ, and the model run to prove it."""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from identiformer.measures.attention.ambiguity import ambiguity
from identiformer.measures.attention.identifiability import attention_identifiability
from identiformer.models import Model
from identiformer.models.interventions.patching import Change
from identiformer.trace import Trace

NARROW = 0.01
"""An interval less wide than this is told as certainty."""


@dataclass(frozen=True)
class Certificate:
    """The row of a head whose largest weight can move most, and what happens to the model when it does."""

    layer: int
    head: int
    rows: int
    rows_certified: int
    """In how many rows the largest weight is the largest in every row with the same output."""
    query: int
    query_token: str
    key: int
    key_token: str
    weight: float
    low: float
    high: float
    low_reached: float
    high_reached: float
    confirmed: bool
    argmax_certified: bool
    rival: int | None
    rival_token: str | None
    tolerance: float
    alternative: str
    """Which of the alternatives the model was run with."""
    total_variation: float
    output: Change
    layer_nullity: int | None
    """Directions of all heads' weights together that leave this row's output of the layer; None without a projection."""
    heads_nullity: int
    """The same, each head by itself, added up."""
    rows_key_constrained: int | None
    """In how many rows of the head no small change of the query leaves the output; None where keys alone do not make weights."""
    result: xr.Dataset

    def sentences(self) -> list[str]:
        """The findings in words."""
        return [
            f"Layer {self.layer}, head {self.head}: {row_sentence(self.result)}",
            patched_run_sentence(self.total_variation, self.output),
            f"In {self.rows_certified} of the {self.rows} rows of this head the largest weight is certain to be the largest."
            + self._by_keys(),
            *self._of_the_layer(),
        ]

    def _by_keys(self) -> str:
        if self.rows_key_constrained is None:
            return ""
        return (
            " If only attention were allowed that these keys can generate, small changes would show in the output of "
            f"{self.rows_key_constrained} rows."
        )

    def _of_the_layer(self) -> list[str]:
        if self.layer_nullity is None:
            return []
        more = self.layer_nullity - self.heads_nullity
        return [
            f"In that row all heads of the layer together have {self.layer_nullity} dimensions that the layer's output cannot "
            f"see, {more or 'none'} more than the heads by themselves."
        ]

    def as_json(self) -> dict[str, Any]:
        """The findings as plain numbers and words."""
        fields = {name: value for name, value in vars(self).items() if name != "result"}
        return {**fields, "output": vars(self.output), "sentences": self.sentences()}


def row_sentence(result: xr.Dataset) -> str:
    """What certified bounds say about the largest weight of one row; `result` is that row's `ambiguity`."""
    row = result.isel(query=0)
    largest = row.sel(key=int(row.largest))
    low, high = float(largest.low), float(largest.high)
    reached = f"[{float(largest.low_reached):.2f}, {float(largest.high_reached):.2f}]"
    certified = f"[{low:.2f}, {high:.2f}]"
    if high - low < NARROW:
        interval = f"that weight is certain: it lies in [{low:.3f}, {high:.3f}]"
    elif reached == certified:
        interval = f"that weight could lie anywhere in {reached}"
    else:
        interval = f"that weight could lie anywhere in {reached} and nowhere outside {certified}"
    if not bool(largest.confirmed):
        interval += " (unconfirmed: the bounds are safe but may be too wide)"
    rival = int(row.rival)
    if bool(row.argmax_certified):
        rank = "it is the largest in every case"
    elif rival >= 0:
        rank = f"another key, ‘{row.key_token.values[rival]}’ at {rival}, could be larger"
    else:
        rank = "whether it is always the largest is undecided"
    tolerance = json.loads(result.attrs["settings"])["tolerance"]
    return (
        f"‘{row.query_token.values}’ at {int(row['query'])} attends most to ‘{largest.key_token.values}’ at {int(row.largest)} "
        f"({float(largest.raw):.2f}). With the same output, to {tolerance:g} of its length, {interval}; {rank}."
    )


def patched_run_sentence(total_variation: float, output: Change) -> str:
    """How much a patched run changed the model's output, next to its control."""
    return (
        f"Re-running the model with another attention of that row, which moves {total_variation:.0%} of it, changes the "
        f"output by {output.patched:.1g} (a random change of the same size: {output.control:.1g})."
    )


def certify_head(
    model: Model, trace: Trace, layer: int, head: int, *, kind: str | None = None, progress: bool = False
) -> Certificate:
    """Certify the largest weight of every row of a head; then take the row in which it can move most, and run the model with it.

    Rows of special tokens are taken only where there are no others.
    """
    whole = ambiguity(trace, layer, head, top=1, alternatives=False, kind=kind, progress=progress)
    queries = trace.stack(kind).queries
    width = np.nanmax(whole.high_reached.values - whole.low_reached.values, axis=1)
    ordinary = ~np.array(queries.special)
    query = int(np.where(ordinary if ordinary.any() else True, width, -1.0).argmax())
    result = ambiguity(trace, layer, head, query=query, kind=kind, progress=False)
    one = result.isel(query=0)
    key, rival = int(one.largest), int(one.rival)
    alternative = "rival" if rival >= 0 else str(one.total_variation.idxmax("alternative").values)
    patched = trace.layer(layer, kind).recorded().weights[head].double().numpy().copy()
    patched[query] = one.alternatives.sel(alternative=alternative).values
    rerun = model.rerun(trace, {(layer, head): patched}, kind=kind)
    at_key = one.sel(key=key)
    told = attention_identifiability(trace, layer, kind=kind)
    by_keys = told.get("key_constrained_identifiable")
    return Certificate(
        layer=layer,
        head=head,
        rows=len(queries),
        rows_certified=int(whole.argmax_certified.sum()),
        query=query,
        query_token=str(one.query_token.values),
        key=key,
        key_token=str(at_key.key_token.values),
        weight=float(at_key.raw),
        low=float(at_key.low),
        high=float(at_key.high),
        low_reached=float(at_key.low_reached),
        high_reached=float(at_key.high_reached),
        confirmed=bool(at_key.confirmed),
        argmax_certified=bool(one.argmax_certified),
        rival=None if rival < 0 else rival,
        rival_token=None if rival < 0 else str(one.key_token.values[rival]),
        tolerance=json.loads(result.attrs["settings"])["tolerance"],
        alternative=alternative,
        total_variation=float(one.total_variation.sel(alternative=alternative)),
        output=rerun.output,
        layer_nullity=int(told.layer_nullity[query]) if "layer_nullity" in told else None,
        heads_nullity=int(told.heads_nullity[query]),
        rows_key_constrained=None if by_keys is None else int(by_keys[head].sum()),
        result=result,
    )
