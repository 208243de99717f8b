"""Raw, effective and null attention of every head of a trace, with what sums them up."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from identiformer.equations import FactoredAttention, factor_weights, null_mass, singular_values
from identiformer.equations.attention.effective import check_rows, effective_matrices
from identiformer.equations.attention.heads import per_head
from identiformer.equations.attention.summaries import correlation
from identiformer.errors import InputError, MemoryBudgetError
from identiformer.measures.selection import chosen
from identiformer.results import describe
from identiformer.results.schema import VARIABLES
from identiformer.trace import WEIGHTS_BUDGET, AttentionLayer, AttentionStack, FactoredLayer, RecordedLayer, Trace


def effective_attention(
    trace: Trace,
    *,
    kind: str | None = None,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    queries: Sequence[int] | None = None,
    value_bias: bool = True,
    matrices: bool | None = None,
    spectrum: bool = True,
) -> xr.Dataset:
    """Effective attention of a trace: what of its attention the model's output can see. §3.2.

    `raw` (read-only: it may be the trace's own), `effective`, `null` (layer head query key);
    `rank`, `nullity`, `row_null_mass` (layer head query);
    `null_mass` (mean over rows), `pooled_null_mass`, `correlation` of raw with effective and `gap`, the ratio of the last
    singular value kept to the first one dropped (layer head); `leverage`, `raw_received`, `effective_received` (mean over
    queries) (layer head key); `singular_values` of all the values (layer head component).

    layers (counted from 1), heads, queries: only these. value_bias: whether the values keep their bias.
    matrices: whether to make the query x key arrays; without it, where they fit in 2 GiB. A trace in factored form has no
    raw weights, so no `raw` and `null`, and null mass and correlation only if it was made with raw_norms=True.
    spectrum: whether to give `singular_values` and `gap`, which take a quarter of the time.
    """
    stack = trace.stack(kind)
    numbers = list(layers) if layers is not None else [layer.number for layer in stack.layers]
    records = [trace.layer(number, kind) for number in numbers]
    chosen_heads = chosen(heads, records[0].heads, "head")
    chosen_queries = chosen(queries, len(stack.queries), "query")
    keys = len(stack.keys)
    size = 3 * len(records) * len(chosen_heads) * len(chosen_queries) * keys * 4
    if matrices and size > WEIGHTS_BUDGET:
        raise MemoryBudgetError(
            f"expected query x key arrays of at most {WEIGHTS_BUDGET / 2**30:.0f} GiB, but these would take "
            f"{size / 2**30:.1f} GiB; choose layers=, heads= or queries=, or leave the arrays out with matrices=False."
        )
    dense = size <= WEIGHTS_BUDGET if matrices is None else matrices
    shape = (len(records), len(chosen_heads), len(chosen_queries), keys)
    whole = chosen_heads == list(range(records[0].heads)) and chosen_queries == list(range(len(stack.queries)))
    arrays = _empty(shape, stack.weights if whole and records == list(stack.layers) else None, records, dense)
    joined = join_layers(records, stack, value_bias) if whole else None
    if joined is not None:
        flat = {name: array.flatten(0, 1) for name, array in arrays.items()}
        measured = _measure_layer(joined, None, None, True, flat, spectrum)
        arrays |= {name: tensor.unflatten(0, (len(records), -1)) for name, tensor in measured.items()}
    else:
        rows = None if chosen_queries == list(range(len(stack.queries))) else torch.tensor(chosen_queries)
        summaries = [
            _measure_layer(
                layer, chosen_heads, rows, value_bias, {name: array[number] for name, array in arrays.items()}, spectrum
            )
            for number, layer in enumerate(records)
        ]
        arrays |= {name: torch.stack([summary[name] for summary in summaries]) for name in summaries[0]}
    return describe(
        _dataset(arrays, numbers, chosen_heads, chosen_queries, stack),
        "effective_attention",
        trace.source,
        {"kind": stack.kind, "value_bias": value_bias},
    )


def _empty(shape: tuple[int, ...], recorded: Tensor | None, records: list[AttentionLayer], dense: bool) -> dict[str, Tensor]:
    """Arrays to fill; the raw weights are those of the trace, not a copy, where all of them are asked for."""
    if not dense:
        return {}
    if not isinstance(records[0], RecordedLayer):
        return {"effective": torch.empty(shape)}
    raw = recorded if recorded is not None and recorded.dtype == torch.float32 else torch.empty(shape)
    return {"raw": raw, "effective": torch.empty(shape), "null": torch.empty(shape)}


def join_layers(layers: list[AttentionLayer], stack: AttentionStack, value_bias: bool) -> RecordedLayer | None:
    """All layers as one with so many more heads, where every row sees every key: fewer, larger steps take less time."""
    stacked = stack.weights
    if stacked is None or layers != list(stack.layers) or not stacked.is_contiguous():
        return None
    records = [layer.recorded() for layer in layers]
    first = records[0]
    if not all(record.visible.shared and not record.lossy_heads and record.sink == first.sink for record in records):
        return None
    values = [record.transmitted_values(value_bias) for record in records]
    if len({tensor.shape for tensor in values}) > 1:
        return None
    apart = dict.fromkeys(("keys", "queries", "projection", "value_bias"))
    return replace(first, weights=stacked.flatten(0, 1), values=torch.cat(values), **apart)


def _measure_layer(
    layer: AttentionLayer,
    heads: list[int] | None,
    rows: Tensor | None,
    value_bias: bool,
    matrices: dict[str, Tensor],
    spectrum: bool,
) -> dict[str, Tensor]:
    """The summaries of one layer, over the chosen heads and rows; its matrices go straight into the arrays given."""
    kept = slice(None) if heads is None else heads
    if isinstance(layer, FactoredLayer):
        factored, summaries = _from_factors(layer, rows, value_bias)
        if matrices:
            matrices["effective"][:] = factored.matrices()[kept]
    else:
        layer = layer.recorded()
        weights = layer.weights if rows is None else layer.weights[:, rows]
        factored, summaries = _from_weights(layer, weights, rows, value_bias, spectrum)
        if matrices:
            if matrices["raw"].data_ptr() != weights.data_ptr():
                matrices["raw"][:] = weights[kept]
            if heads is None:
                effective_matrices(factored, weights, out=matrices["effective"])
            else:
                matrices["effective"][:] = effective_matrices(factored, weights)[kept]
            torch.sub(matrices["raw"], matrices["effective"], out=matrices["null"])
    nullity = per_head(factored.nullity, factored.heads)
    summaries |= {
        "rank": per_head(factored.rank, factored.heads),
        "nullity": nullity,
        "leverage": per_head(factored.leverage, factored.heads),
        "effective_received": factored.column_means(),
    }
    raw_norm, raw_sum = summaries.pop("raw_squared_norm", None), summaries.pop("raw_sum")
    if raw_norm is not None:
        norm = factored.squared_norm
        row_mass = torch.where(nullity > 0, null_mass(raw_norm, norm), 0.0)
        summaries |= {
            "row_null_mass": row_mass,
            "null_mass": row_mass.mean(-1),
            "pooled_null_mass": (row_mass * raw_norm).sum(-1) / raw_norm.sum(-1),
            "correlation": correlation(raw_norm, norm, raw_sum, factored.row_sums(), nullity, factored.visible.counts),
        }
    return {name: tensor[kept] for name, tensor in summaries.items()}


def _from_weights(
    layer: RecordedLayer, weights: Tensor, rows: Tensor | None, value_bias: bool, spectrum: bool
) -> tuple[FactoredAttention, dict[str, Tensor]]:
    visible = layer.visible if rows is None else layer.visible.rows(rows)
    raw_sum = check_rows(weights, visible, layer.sink)
    values = layer.transmitted_values(value_bias)
    factored = factor_weights(weights, values, visible, layer.values.dtype)
    at_least_single = torch.promote_types(weights.dtype, torch.float32)
    summaries = {
        "raw_squared_norm": torch.linalg.vector_norm(weights, dim=-1, dtype=at_least_single).double().square(),
        "raw_sum": raw_sum,
        "raw_received": weights.mean(1, dtype=torch.float32),
    }
    if spectrum:
        own = singular_values(values)
        summaries["singular_values"] = per_head(own, factored.heads)
        summaries["gap"] = per_head(_gap(own, factored.rank.amax(-1)), factored.heads)
    return factored, summaries


def _from_factors(layer: FactoredLayer, rows: Tensor | None, value_bias: bool) -> tuple[FactoredAttention, dict[str, Tensor]]:
    if not value_bias:
        raise InputError("a trace in factored form holds the values with their bias; trace the text with form='weights'.")
    factored = layer.effective() if rows is None else layer.effective().restrict(rows)
    summaries = {"raw_sum": torch.ones_like(factored.squared_norm)}
    if layer.raw_squared_norm is not None:
        summaries["raw_squared_norm"] = layer.raw_squared_norm if rows is None else layer.raw_squared_norm[:, rows]
    return factored, summaries


def _gap(spectrum: Tensor, rank: Tensor) -> Tensor:
    """σ_r/σ_{r+1}: how clearly the rank is told; infinite where the values have no further direction."""
    padded = torch.nn.functional.pad(spectrum, (0, 1))
    kept = padded.gather(-1, (rank - 1).clamp(min=0)[:, None])[:, 0]
    return kept / padded.gather(-1, rank[:, None])[:, 0]


def _dataset(
    arrays: dict[str, Tensor], layers: list[int], heads: list[int], queries: list[int], stack: AttentionStack
) -> xr.Dataset:
    layout = VARIABLES["effective_attention"]
    variables = {name: (dims, arrays[name].numpy()) for name, dims in layout.items() if name in arrays}
    if "raw" in variables:
        variables["raw"][1].setflags(write=False)  # it may be the trace's own memory
    coordinates = {
        "layer": layers,
        "head": heads,
        "query": queries,
        "key": np.arange(len(stack.keys)),
        "query_token": ("query", np.array(stack.queries.texts)[queries]),
        "key_token": ("key", np.array(stack.keys.texts)),
    }
    return xr.Dataset(variables, coordinates)
