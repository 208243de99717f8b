"""A certificate for one head: certified bounds of its most ambiguous row, and a patched run that confirms them."""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from torch import Tensor

from identiformer.equations.attention.contributions import SINK_EFFECT, SINK_WEIGHT
from identiformer.measures.attention.ambiguity import ambiguity
from identiformer.measures.attention.identifiability import attention_identifiability
from identiformer.models import Model
from identiformer.models.interventions.patching import Change
from identiformer.trace import Trace

TELLING = 0.1
"""A patched run that changes the output by less than this share of the control confirms that the output does not depend on it."""
NARROW = 0.01
"""A narrower interval is reported as certified."""


@dataclass(frozen=True)
class Certificate:
    """Certified bounds of the row of a head whose largest weight can change most, and the effect of changing it.

    Made by `certify_head`. `result` is the row's `ambiguity`, `output` the change of the model's output in the patched run.
    """

    layer: int
    head: int
    rows: int
    rows_certified: int
    """In how many rows the largest weight is the largest in all attention with the same output."""
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
    """Which of the alternatives was patched in."""
    total_variation: float
    output: Change
    layer_nullity: int | None
    """Dimensions of all heads' weights in this row that leave the layer's output unchanged; None without a projection."""
    heads_nullity: int
    """The sum of these dimensions over single heads."""
    rows_key_constrained: int | None
    """In how many rows every small change of the query changes the output; None if keys and queries alone do not make weights."""
    result: xr.Dataset

    def sentences(self) -> list[str]:
        """The findings as sentences."""
        return [
            f"Layer {self.layer}, head {self.head}: {row_sentence(self.result)}",
            patched_run_sentence(self.total_variation, self.output),
            f"In {self.rows_certified} of the {self.rows} rows of this head the largest weight is certified to be the largest."
            + self._key_constrained(),
            *self._layer_sentence(),
        ]

    def _key_constrained(self) -> str:
        if self.rows_key_constrained is None:
            return ""
        return (
            " Of the changes that another query could cause with these keys, even small ones change the output in "
            f"{self.rows_key_constrained} rows."
        )

    def _layer_sentence(self) -> list[str]:
        if self.layer_nullity is None:
            return []
        more = self.layer_nullity - self.heads_nullity
        return [
            f"In that row all heads of the layer together have {self.layer_nullity} dimensions on which the layer's output does "
            f"not depend, {more or 'none'} more than the single heads."
        ]

    def as_json(self) -> dict[str, Any]:
        """The findings as JSON data."""
        fields = {name: value for name, value in vars(self).items() if name != "result"}
        return {**fields, "output": vars(self.output), "sentences": self.sentences()}


def row_sentence(result: xr.Dataset, state_tolerance: bool = True) -> str:
    """Describe the certified bounds on the largest weight of one row; `result` is that row's `ambiguity`."""
    row = result.isel(query=0)
    largest = row.sel(key=int(row.largest))
    low, high = float(largest.low), float(largest.high)
    reached = f"[{float(largest.low_reached):.2f}, {float(largest.high_reached):.2f}]"
    certified = f"[{low:.2f}, {high:.2f}]"
    if high - low < NARROW:
        interval = f"that weight is certified to be in [{low:.3f}, {high:.3f}]"
    elif reached == certified:
        interval = f"that weight could be anywhere in {reached}"
    else:
        interval = f"that weight could be anywhere in {reached}, and is certified to be in {certified}"
    if not bool(largest.confirmed):
        interval += " (the certified bounds may be too wide)"
    rival = int(row.rival)
    if bool(row.argmax_certified):
        rank = "it is certified to be the largest"
    elif rival >= 0:
        rank = f"another key, ‘{row.key_token.values[rival]}’ at {rival}, could be larger"
    else:
        rank = "whether another key could be larger is undecided"
    tolerance = json.loads(result.attrs["settings"])["tolerance"]
    same = f"the same output, up to a relative change of {tolerance:g}," if state_tolerance else "the same output"
    return (
        f"‘{row.query_token.values}’ at {int(row['query'])} attends most to ‘{largest.key_token.values}’ at {int(row.largest)} "
        f"({float(largest.raw):.2f}). With {same} {interval}; {rank}."
    )


def patched_run_sentence(total_variation: float, output: Change) -> str:
    """Describe how much a patched run changed the model's output, next to its control."""
    return (
        f"A patched run with an alternative row, in which {total_variation:.0%} of the weight is on other keys, changes "
        f"the model's output by up to {_size(output.patched)} per coordinate (control, a random change of the same size: "
        f"{_size(output.control)})."
    )


def _size(change: float) -> str:
    """A change in one digit, and never as 4e+01."""
    return f"{change:.0f}" if change >= 10 else f"{change:.1g}"


def row_sentences(result: xr.Dataset) -> list[str]:
    """`row_sentence`, and what the largest weight of the row contributes to the head's output."""
    first = row_sentence(result, state_tolerance=False)
    row = result.isel(query=0)
    largest = row.sel(key=int(row.largest))
    contribution, low, high = (float(largest[name]) for name in ("contribution", "contribution_low", "contribution_high"))
    if np.isnan(contribution):
        return [first, "The output of the head is zero in this row, so nothing contributes to it."]
    share = f"{round(contribution, 2) + 0:.0%}"
    sink = float(largest.raw) >= SINK_WEIGHT and abs(contribution) <= SINK_EFFECT * float(largest.raw)
    certified = "" if high - low < NARROW else f" (certified: {round(low, 2) + 0:.0%} to {round(high, 2) + 0:.0%})"
    meaning = ": an attention sink" if sink else ""
    return [first, f"That key contributes {share} of what the head writes{certified}{meaning}."]


def patched_run_conclusion(output: Change) -> str:
    """What a patched run next to its control shows."""
    if output.patched <= output.control * TELLING:
        return "So the model's output does not show which of the two rows was used."
    return "So the alternative is not equivalent for the whole model: its output changes about as much as by a random change."


def certify_head(
    model: Model,
    trace: Trace,
    layer: int,
    head: int,
    *,
    kind: str | None = None,
    progress: bool = False,
    tensor: Tensor | None = None,
) -> Certificate:
    """Certify the largest weight of every row of a head, and patch the model with an alternative for the most ambiguous row.

    Parameters
    ----------
    model : Model
    trace : Trace
        Of the model, with recorded weights.
    layer, head : int
        The head; layers count from 1, heads from 0.
    kind : str, optional
        Attention type; the first of the trace by default.
    progress : bool
        Whether to show a progress bar.
    tensor : torch.Tensor, optional
        The image or audio of the trace.

    Returns
    -------
    Certificate
        Of the row whose largest weight can change most; of special tokens only if there are no others. `sentences()` puts it
        into words.

    Examples
    --------
    >>> import identiformer as idf
    >>> model = idf.load("minilm")
    >>> certificate = idf.certify_head(model, model.trace("He said that the pie was his."), layer=4, head=3)
    >>> certificate.rows_certified == certificate.rows
    True
    """
    rows = ambiguity(trace, layer, head, top=1, alternatives=False, kind=kind, progress=progress)
    queries = trace.stack(kind).queries
    width = np.nanmax(rows.high_reached.values - rows.low_reached.values, axis=1)
    ordinary = ~np.array(queries.special)
    query = int(np.where(ordinary if ordinary.any() else True, width, -1.0).argmax())
    result = ambiguity(trace, layer, head, queries=query, kind=kind, progress=False)
    row = result.isel(query=0)
    key, rival = int(row.largest), int(row.rival)
    alternative = "rival" if rival >= 0 else str(row.total_variation.idxmax("alternative").values)
    patched = trace.layer(layer, kind).recorded().weights[head].double().numpy().copy()
    patched[query] = row.alternatives.sel(alternative=alternative).values
    rerun = model.rerun(trace, {(layer, head): patched}, kind=kind, tensor=tensor)
    largest = row.sel(key=key)
    nullities = attention_identifiability(trace, layer, kind=kind)
    key_constrained = nullities.get("key_constrained_identifiable")
    return Certificate(
        layer=layer,
        head=head,
        rows=len(queries),
        rows_certified=int(rows.argmax_certified.sum()),
        query=query,
        query_token=str(row.query_token.values),
        key=key,
        key_token=str(largest.key_token.values),
        weight=float(largest.raw),
        low=float(largest.low),
        high=float(largest.high),
        low_reached=float(largest.low_reached),
        high_reached=float(largest.high_reached),
        confirmed=bool(largest.confirmed),
        argmax_certified=bool(row.argmax_certified),
        rival=None if rival < 0 else rival,
        rival_token=None if rival < 0 else str(row.key_token.values[rival]),
        tolerance=json.loads(result.attrs["settings"])["tolerance"],
        alternative=alternative,
        total_variation=float(row.total_variation.sel(alternative=alternative)),
        output=rerun.output,
        layer_nullity=int(nullities.layer_nullity[query]) if "layer_nullity" in nullities else None,
        heads_nullity=int(nullities.heads_nullity[query]),
        rows_key_constrained=None if key_constrained is None else int(key_constrained[head].sum()),
        result=result,
    )
