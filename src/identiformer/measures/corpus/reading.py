"""The reading over a corpus: how much of every head's weight is certified, contributes, and is about the token."""

import numpy as np
import xarray as xr

from identiformer.measures.attention.reading import SINK_SHARE, attention_reading
from identiformer.measures.corpus.measure import LAYER_HEAD, CorpusMeasure, Observation
from identiformer.measures.corpus.state import State, mean, sums

SHARES = ("certified", "contributing", "readable", "output_share", "sink_share")


def _observe(observation: Observation) -> State:
    """The shares of each head, which are means over the rows of the text, or over those that predict an answer."""
    rows = None if observation.answer is None else list(observation.answer.positions)
    result = attention_reading(observation.recorded, observation.attribution, queries=rows, processes=1)
    totals: dict[str, np.ndarray] = {}
    for name in SHARES:
        totals[name], totals[f"{name}_count"] = sums(result[name].values)
    totals["sink_heads"] = (result.sink_share.values >= SINK_SHARE).astype(np.int64)
    totals["texts"] = np.ones(result.sink_share.shape, np.int64)
    totals["rows"] = np.full(result.sink_share.shape, result.sizes["query"])
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
