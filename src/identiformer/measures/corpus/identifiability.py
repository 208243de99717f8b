"""Over a corpus: whether outputs determine attention, by rank, and by certified bounds of rows drawn at random."""

import numpy as np
import xarray as xr

from identiformer.measures.attention.ambiguity import ambiguity
from identiformer.measures.attention.identifiability import head_ranks
from identiformer.measures.corpus.measure import CorpusMeasure, Observation, by_layer_and_head
from identiformer.measures.corpus.state import QUANTILE_ERROR, State, histogram, mean, quantiles, split
from identiformer.measures.effective import join_layers
from identiformer.results import labeled

RANKS = ("rank", "nullity", "simplex_nullity")
QUANTILES = (0.25, 0.5, 0.75)


def _observe_ranks(observation: Observation) -> State:
    """Totals over the rows of each head."""
    stack = observation.passage.trace.stack()
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
    means = {name: state[name] / rows for name in (*RANKS, "identified", "identified_on_simplex")}
    return labeled("corpus_attention_identifiability", {**means, "rows": state["rows"]}, by_layer_and_head(rows))


def _observe_bounds(observation: Observation) -> State:
    """Certified bounds of the largest weight in one row per layer, chosen by the seed and the example's index."""
    generator = np.random.default_rng([observation.seed, observation.index])
    trace = observation.passage.trace
    stack, rows = trace.stack(), []
    for layer in stack.layers:
        head, query = int(generator.integers(layer.heads)), int(generator.integers(len(stack.queries)))
        row = ambiguity(trace, layer.number, head, queries=query, top=1, alternatives=False).isel(query=0)
        largest = row.isel(key=int(row.largest))
        rows.append((int(row.argmax_certified), int(row.dimension), min(max(float(largest.high - largest.low), 0.0), 1.0)))
    certified, dimension, width = map(np.array, zip(*rows, strict=True))
    totals = {"rows": np.ones(len(rows), np.int64), "certified": certified, "dimension": dimension}
    return State({**totals, "width": split(width), "width_histogram": histogram(width[:, None])})


def _finalize_bounds(state: State) -> xr.Dataset:
    """The share of rows whose largest weight is certified to be the largest, and the width of its interval."""
    rows = state["rows"]
    arrays = {
        "rows": rows,
        "certified": state["certified"] / rows,
        "dimension": state["dimension"] / rows,
        "width": mean(state["width"], rows),
        "width_quantiles": quantiles(state["width_histogram"], QUANTILES),
        "quantile_error": QUANTILE_ERROR,
    }
    return labeled("corpus_ambiguity", arrays, {"layer": np.arange(1, len(rows) + 1), "quantile": list(QUANTILES)})


ATTENTION_IDENTIFIABILITY = CorpusMeasure("attention_identifiability", _observe_ranks, _finalize_ranks)
AMBIGUITY = CorpusMeasure("ambiguity", _observe_bounds, _finalize_bounds, cheap=False)
