"""Certified intervals over a corpus, for one row of every layer of every text, drawn by chance."""

import numpy as np
import xarray as xr

from identiformer.measures.attention.ambiguity import ambiguity
from identiformer.measures.corpus.exact_sum import mean, split
from identiformer.measures.corpus.histogram import QUANTILE_ERROR, histogram, quantiles
from identiformer.measures.corpus.measure import CorpusMeasure, Observation
from identiformer.measures.corpus.state import State

QUANTILES = (0.25, 0.5, 0.75)


def observe(seen: Observation) -> State:
    """The interval of the largest weight of one row a layer; which row follows from the seed and the example's number."""
    chance = np.random.default_rng([seen.seed, seen.index])
    trace = seen.recorded
    queries, layers = len(trace.stack().queries), trace.stack().layers
    width, certified, dimension = np.zeros(len(layers)), np.zeros(len(layers), np.int64), np.zeros(len(layers), np.int64)
    for place, layer in enumerate(layers):
        head, query = int(chance.integers(layer.heads)), int(chance.integers(queries))
        row = ambiguity(trace, layer.number, head, query=query, top=1, alternatives=False)
        largest = int(row.largest[0])
        width[place] = min(max(float(row.high[0, largest] - row.low[0, largest]), 0.0), 1.0)
        certified[place], dimension[place] = int(row.argmax_certified[0]), int(row.dimension[0])
    return State(
        {
            "rows": np.ones(len(layers), np.int64),
            "certified": certified,
            "dimension": dimension,
            "width": split(width),
            "width_histogram": histogram(width[:, None]),
        }
    )


def finalize(state: State) -> xr.Dataset:
    """The share of rows whose largest weight is certain, and how wide its interval is."""
    rows, layer = state["rows"], ("layer",)
    variables = {
        "rows": (layer, rows),
        "certified": (layer, state["certified"] / rows),
        "dimension": (layer, state["dimension"] / rows),
        "width": (layer, mean(state["width"], rows)),
        "width_quantiles": (("quantile", *layer), quantiles(state["width_histogram"], QUANTILES)),
        "quantile_error": ((), QUANTILE_ERROR),
    }
    return xr.Dataset(variables, {"layer": np.arange(1, len(rows) + 1), "quantile": list(QUANTILES)})


AMBIGUITY = CorpusMeasure("ambiguity", observe, finalize, cheap=False)
