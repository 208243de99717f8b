"""Over a corpus: whether outputs determine attention, by rank, and by certified bounds of rows drawn at random."""

import numpy as np
import xarray as xr

from identiformer.measures.attention.ambiguity import ambiguity
from identiformer.measures.attention.identifiability import head_ranks
from identiformer.measures.corpus.measure import LAYER_HEAD, CorpusMeasure, Observation
from identiformer.measures.corpus.state import QUANTILE_ERROR, State, histogram, mean, quantiles, split
from identiformer.measures.effective import join_layers

RANKS = ("rank", "nullity", "simplex_nullity")
QUANTILES = (0.25, 0.5, 0.75)


def _observe_ranks(observation: Observation) -> State:
    """Totals over the rows of each head."""
    stack = observation.recorded.stack()
    joined = join_layers(list(stack.layers), stack, True)
    layers = [layer.recorded() for layer in stack.layers] if joined is None else [joined]
    ranks = [head_ranks(layer) for layer in layers]
    shape = (len(stack.layers), -1, len(stack.queries))
    arrays = {name: np.concatenate([layer[name].numpy() for layer in ranks]).reshape(shape) for name in RANKS}
    totals = {name: array.sum(-1) for name, array in arrays.items()}
    totals["identified"] = (arrays["nullity"] == 0).sum(-1)
    totals["identified_on_simplex"] = (arrays["simplex_nullity"] == 0).sum(-1)
    totals["rows"] = np.full(arrays["rank"].shape[:2], arrays["rank"].shape[-1])
    return State(totals)


def _finalize_ranks(state: State) -> xr.Dataset:
    """Means over all rows, and the share of rows that the output determines."""
    rows = np.maximum(state["rows"], 1)
    variables = {name: (LAYER_HEAD, state[name] / rows) for name in (*RANKS, "identified", "identified_on_simplex")}
    variables["rows"] = (LAYER_HEAD, state["rows"])
    layers, heads = state["rows"].shape
    return xr.Dataset(variables, {"layer": np.arange(1, layers + 1), "head": np.arange(heads)})


def _observe_bounds(observation: Observation) -> State:
    """Certified bounds of the largest weight in one row per layer, chosen by the seed and the example's index."""
    generator = np.random.default_rng([observation.seed, observation.index])
    stack = observation.recorded.stack()
    width = np.zeros(len(stack.layers))
    certified, dimension = np.zeros((2, len(stack.layers)), np.int64)
    for at, layer in enumerate(stack.layers):
        head, query = int(generator.integers(layer.heads)), int(generator.integers(len(stack.queries)))
        row = ambiguity(observation.recorded, layer.number, head, queries=query, top=1, alternatives=False)
        largest = int(row.largest[0])
        width[at] = min(max(float(row.high[0, largest] - row.low[0, largest]), 0.0), 1.0)
        certified[at], dimension[at] = int(row.argmax_certified[0]), int(row.dimension[0])
    return State(
        {
            "rows": np.ones(len(width), np.int64),
            "certified": certified,
            "dimension": dimension,
            "width": split(width),
            "width_histogram": histogram(width[:, None]),
        }
    )


def _finalize_bounds(state: State) -> xr.Dataset:
    """The share of rows whose largest weight is certified to be the largest, and the width of its interval."""
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


ATTENTION_IDENTIFIABILITY = CorpusMeasure("attention_identifiability", _observe_ranks, _finalize_ranks)
AMBIGUITY = CorpusMeasure("ambiguity", _observe_bounds, _finalize_bounds, cheap=False)
