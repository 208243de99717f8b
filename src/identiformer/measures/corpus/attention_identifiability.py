"""Over a corpus: whether outputs tell attention, when any weights are allowed and when rows must sum as attention does."""

import numpy as np
import xarray as xr

from identiformer.measures.attention.effective import join_layers
from identiformer.measures.attention.identifiability import head_ranks
from identiformer.measures.corpus.measure import CorpusMeasure, Observation
from identiformer.measures.corpus.state import State

LAYER_HEAD = ("layer", "head")
NUMBERS = ("rank", "nullity", "simplex_nullity")


def observe(seen: Observation) -> State:
    """Totals over the rows of each head; the ranks are whole numbers already."""
    stack = seen.recorded.stack()
    joined = join_layers(list(stack.layers), stack, True)
    layers = [layer.recorded() for layer in stack.layers] if joined is None else [joined]
    ranks = [head_ranks(layer) for layer in layers]
    shape = (len(stack.layers), -1, len(stack.queries))
    arrays = {name: np.concatenate([layer[name].numpy() for layer in ranks]).reshape(shape) for name in NUMBERS}
    totals = {name: array.sum(-1) for name, array in arrays.items()}
    totals["identified"] = (arrays["nullity"] == 0).sum(-1)
    totals["identified_on_simplex"] = (arrays["simplex_nullity"] == 0).sum(-1)
    totals["rows"] = np.full(arrays["rank"].shape[:2], arrays["rank"].shape[-1])
    return State(totals)


def finalize(state: State) -> xr.Dataset:
    """Means over all rows of all texts, and the share of rows that the output tells."""
    names = (*NUMBERS, "identified", "identified_on_simplex")
    rows = np.maximum(state["rows"], 1)
    variables = {name: (LAYER_HEAD, state[name] / rows) for name in names}
    layers, heads = state["rows"].shape
    variables["rows"] = (LAYER_HEAD, state["rows"])
    return xr.Dataset(variables, {"layer": np.arange(1, layers + 1), "head": np.arange(heads)})


ATTENTION_IDENTIFIABILITY = CorpusMeasure("attention_identifiability", observe, finalize)
