"""Attention over a corpus: how far effective differs from raw attention, which tokens receive it, and what outputs determine.

Figs. 1 and 5; ranks, and certified bounds of rows drawn at random.
"""

import numpy as np
import xarray as xr

from identiformer.measures.attention.ambiguity import ambiguity
from identiformer.measures.attention.identifiability import head_ranks
from identiformer.measures.corpus.measure import LONGEST, CorpusMeasure, Observation, by_layer_and_head
from identiformer.measures.corpus.state import QUANTILE_ERROR, State, histogram, mean, quantiles, split, sums
from identiformer.measures.effective import effective_attention, join_layers
from identiformer.passage import Passage
from identiformer.results import labeled

KINDS = ("[CLS]", "[SEP]", "punctuation")
"""The token that opens a text, the one that closes it, full stops and commas."""
PUNCTUATION = (".", ",")
PER_HEAD = ("null_mass", "pooled_null_mass", "correlation", "rank", "nullity", "negative_share")
RECEIVED = ("raw_received", "effective_received")
SEPARATORS = ("raw_from_others", "raw_from_separators", "effective_from_others", "effective_from_separators")


def _kinds_of_tokens(passage: Passage) -> dict[str, np.ndarray]:
    """Which tokens are of which kind, for the kinds that the tokenizer has."""
    texts, tokenizer = np.array(passage.tokens.texts), passage.model.tokenizer
    special = {"[CLS]": tokenizer.cls_token or tokenizer.bos_token, "[SEP]": tokenizer.sep_token or tokenizer.eos_token}
    kinds = {kind: texts == token if token else token for kind, token in special.items() if token is not None}
    return {**kinds, "punctuation": np.isin([text.removeprefix("▁") for text in texts.tolist()], PUNCTUATION)}


def _observe(observation: Observation) -> State:
    """Means over the rows of each head, and what each kind of token receives: (1/n)·Σ_i Σ_{j∈kind} A_ij."""
    passage = observation.passage
    result = effective_attention(passage.trace, spectrum=False)
    arrays = {name: result[name].values for name in PER_HEAD[:3]}
    arrays |= {name: result[name].values.mean(-1, dtype=np.float64) for name in PER_HEAD[3:5]}
    arrays["negative_share"] = _negative_share(result["effective"].values)
    kinds = _kinds_of_tokens(passage)
    for name in RECEIVED:
        received = result[name].values.astype(np.float64)
        absent = np.full(received.shape[:2], np.nan)
        arrays[name] = np.stack([received[..., kinds[kind]].sum(-1) if kind in kinds else absent for kind in KINDS], -1)
    arrays |= _attention_to_separators(result, kinds.get("[SEP]"))
    arrays["correlation_by_length"] = np.full(LONGEST + 1, np.nan)
    if np.isfinite(arrays["correlation"]).any():
        arrays["correlation_by_length"][min(len(passage.tokens), LONGEST)] = np.nanmean(arrays["correlation"])
    totals: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        totals[name], totals[f"{name}_count"] = sums(array)
    totals["has_null_space"] = np.asarray((result["nullity"].values > 0).any(-1), dtype=np.int64)
    return State(totals)


def _negative_share(effective: np.ndarray) -> np.ndarray:
    """Σ|a₋| / Σ|a| over all rows of each head: A⊥ is not a distribution."""
    absolute, signed = (each.sum((-2, -1), dtype=np.float64) for each in (np.abs(effective), effective))
    return (absolute - signed) / (2 * absolute)


def _attention_to_separators(result: xr.Dataset, separators: np.ndarray | None) -> dict[str, np.ndarray]:
    """The mean attention to separators from other tokens and from separators. Fig. 5."""
    if separators is None or not separators.any() or separators.all():
        return {name: np.full(result["correlation"].shape, np.nan) for name in SEPARATORS}
    means = {}
    for name in ("raw", "effective"):
        received = result[name].values[..., separators].sum(-1, dtype=np.float64)
        means[f"{name}_from_others"] = received[..., ~separators].mean(-1)
        means[f"{name}_from_separators"] = received[..., separators].mean(-1)
    return means


def _finalize(state: State) -> xr.Dataset:
    """Means over texts."""
    names = (*PER_HEAD, *SEPARATORS, *RECEIVED, "correlation_by_length")
    arrays = {name: mean(state[name], state[f"{name}_count"]) for name in names}
    arrays["correlation_count"] = state["correlation_count"]
    arrays["texts_by_length"] = state["correlation_by_length_count"]
    arrays["null_space_share"] = state["has_null_space"] / np.maximum(state["null_mass_count"], 1)
    coordinates = {**by_layer_and_head(state["correlation_count"]), "kind": list(KINDS), "length": np.arange(LONGEST + 1)}
    return labeled("corpus_effective_attention", arrays, coordinates)


EFFECTIVE_ATTENTION = CorpusMeasure("effective_attention", _observe, _finalize)


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
