"""The reading over a corpus: how much of every head's weight is certified, contributes, and is attributed to the token."""

import numpy as np
import xarray as xr

from identiformer.measures.corpus.measure import LAYER_HEAD, CorpusMeasure, Observation
from identiformer.measures.corpus.state import State, mean, sums
from identiformer.measures.heads.heads import Heads
from identiformer.measures.heads.own_content import attribute, self_contributions
from identiformer.measures.heads.statements import SINK_SHARE
from identiformer.measures.heads.stream import check_tolerance, read_heads
from identiformer.measures.heads.table import SHARES, HeadTable


def _observe(observation: Observation) -> State:
    """The shares of each head, which are means over the rows of the text, or over those that predict an answer."""
    heads = Heads.of(observation.passage)
    attribution = attribute(observation.passage)  # as for a single text, whose reading it equals
    table = HeadTable(heads, *self_contributions(attribution, heads.stack, heads.layers))
    for reading in read_heads(heads, table.own, check_tolerance(None, heads.dtype), certify=True, processes=1):
        table.add(reading)
    totals: dict[str, np.ndarray] = {}
    for name in SHARES:
        totals[name], totals[f"{name}_count"] = sums(table.numbers[name])
    sink_share = table.numbers["sink_share"]
    totals["sink_heads"] = (sink_share >= SINK_SHARE).astype(np.int64)
    totals["texts"] = np.ones(sink_share.shape, np.int64)
    totals["rows"] = np.full(sink_share.shape, len(heads.rows))
    return State(totals)


def _finalize(state: State) -> xr.Dataset:
    """Means over texts, and the share of texts in which a head puts at least a tenth of its weight on sinks."""
    variables = {name: (LAYER_HEAD, mean(state[name], state[f"{name}_count"])) for name in SHARES}
    variables["sink_scale"] = (LAYER_HEAD, 1 - variables["sink_share"][1])
    variables["sink_heads"] = (LAYER_HEAD, state["sink_heads"] / np.maximum(state["texts"], 1))
    variables |= {name: (LAYER_HEAD, state[name]) for name in ("texts", "rows")}
    layers, heads = state["texts"].shape
    return xr.Dataset(variables, {"layer": np.arange(1, layers + 1), "head": np.arange(heads)})


READING = CorpusMeasure("reading", _observe, _finalize, cheap=False)
