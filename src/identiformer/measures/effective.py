"""Raw attention, effective attention and null component of every head of a trace, with their summaries."""

from dataclasses import replace
from math import prod

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from identiformer.equations import FactoredAttention, factor_weights, null_mass, singular_values
from identiformer.equations.attention.effective import check_rows, effective_matrices
from identiformer.equations.attention.heads import per_head
from identiformer.equations.attention.summaries import correlation
from identiformer.errors import InputError, MemoryBudgetError
from identiformer.measures.indices import Indices, select_indices
from identiformer.results import make_result
from identiformer.trace import AttentionLayer, AttentionStack, FactoredLayer, RecordedLayer, Trace


def effective_attention(
    trace: Trace,
    *,
    kind: str | None = None,
    layers: Indices | None = None,
    heads: Indices | None = None,
    queries: Indices | None = None,
    value_bias: bool = True,
    matrices: bool | None = None,
    spectrum: bool = True,
) -> xr.Dataset:
    """Compute effective attention A⊥, the component of attention that the output depends on. §3.2.

    Parameters
    ----------
    trace : Trace
        In factored form it has no raw weights: `raw`, `null` and `raw_received` are missing, and null mass and correlation are
        as well unless it was made with raw_norms=True.
    kind : str, optional
        Attention type; the first of the trace by default.
    layers, heads, queries : int or sequence of int, optional
        Which to measure; all by default. Layers count from 1, heads and queries from 0.
    value_bias : bool
        Whether the values include their bias.
    matrices : bool, optional
        Whether to return the query × key arrays; by default, if they fit into the memory that the model was loaded with.
    spectrum : bool
        Whether to return `singular_values` and `gap`, which take a quarter of the time.

    Returns
    -------
    xarray.Dataset
        `raw` (read-only), `effective`, `null` (layer, head, query, key): A, A⊥ and A∥ = A - A⊥. `rank`, `nullity` of the visible
        values and `row_null_mass`, ‖a∥‖²/‖a‖² (layer, head, query). `null_mass`, its mean over rows, `pooled_null_mass`,
        `correlation` of A with A⊥, and `gap`, the last singular value kept over the first one dropped (layer, head). `leverage`,
        `raw_received`, `effective_received`, means over queries (layer, head, key). `singular_values` of the values (layer,
        head, component).

    Examples
    --------
    >>> import identiformer as idf
    >>> trace = idf.load("minilm").trace("He said that the pie was his.")
    >>> result = idf.effective_attention(trace, layers=[1, 6], heads=0)
    >>> result.effective.dims, result.effective.shape
    (('layer', 'head', 'query', 'key'), (2, 1, 10, 10))
    """
    stack = trace.stack(kind)
    numbers = select_indices(layers, len(stack.layers), "layer", first=1)
    chosen = [stack.layers[number - 1] for number in numbers]
    heads = select_indices(heads, chosen[0].heads, "head")
    queries = select_indices(queries, len(stack.queries), "query")
    shape = (len(chosen), len(heads), len(queries), len(stack.keys))
    size = 3 * 4 * prod(shape)
    if matrices:
        check_budget(size, trace.memory, "choose layers=, heads= or queries=, or leave the arrays out with matrices=False")
    all_queries = queries == list(range(len(stack.queries)))
    all_rows = all_queries and heads == list(range(chosen[0].heads))
    arrays: dict[str, Tensor] = {}
    if size <= trace.memory if matrices is None else matrices:
        arrays = _empty_matrices(shape, stack.weights if all_rows and chosen == list(stack.layers) else None, chosen[0])
    joined = join_layers(chosen, stack, value_bias) if all_rows else None
    if joined is not None:
        flat = {name: array.flatten(0, 1) for name, array in arrays.items()}
        measured = _measure_layer(joined, None, None, True, flat, spectrum)
        arrays |= {name: tensor.unflatten(0, (len(chosen), -1)) for name, tensor in measured.items()}
    else:
        rows = None if all_queries else torch.tensor(queries)
        summaries = []
        for number, layer in enumerate(chosen):
            of_layer = {name: array[number] for name, array in arrays.items()}
            summaries.append(_measure_layer(layer, heads, rows, value_bias, of_layer, spectrum))
        arrays |= {name: torch.stack([summary[name] for summary in summaries]) for name in summaries[0]}
    coordinates = {
        "layer": numbers,
        "head": heads,
        "query": queries,
        "key": np.arange(len(stack.keys)),
        "query_token": ("query", np.array(stack.queries.texts)[queries]),
        "key_token": ("key", np.array(stack.keys.texts)),
    }
    settings = {"kind": stack.kind, "value_bias": value_bias}
    result = make_result("effective_attention", arrays, coordinates, trace.source, settings)
    if "raw" in result:
        result["raw"].values.setflags(write=False)  # it may be the trace's own memory
    return result


def check_budget(size: int, memory: int, remedy: str) -> None:
    """Raise if query x key arrays of this many bytes exceed the memory of a result."""
    if size > memory:
        raise MemoryBudgetError(
            f"expected query x key arrays of at most {memory / 2**30:.3g} GiB, but these would take {size / 2**30:.3g} GiB; "
            f"{remedy}, or allow more memory with --memory (load(…, memory=))."
        )


def _empty_matrices(shape: tuple[int, ...], recorded: Tensor | None, layer: AttentionLayer) -> dict[str, Tensor]:
    """Matrices to fill; the raw weights are the trace's own memory, not a copy, if all of them are selected."""
    if not isinstance(layer, RecordedLayer):
        return {"effective": torch.empty(shape)}
    effective = layer.weights.new_empty(shape, dtype=torch.float32)
    raw = recorded if recorded is not None and recorded.dtype == torch.float32 else torch.empty_like(effective)
    return {"raw": raw, "effective": effective, "null": torch.empty_like(effective)}


def join_layers(layers: list[AttentionLayer], stack: AttentionStack, value_bias: bool) -> RecordedLayer | None:
    """All layers as one layer of many heads, if every row sees every key: fewer, larger steps take less time."""
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
    dropped = dict.fromkeys(("keys", "queries", "stored_projection", "value_bias"))
    return replace(first, stored_weights=stacked.flatten(0, 1), values=torch.cat(values), **dropped)


def _measure_layer(
    layer: AttentionLayer,
    heads: list[int] | None,
    rows: Tensor | None,
    value_bias: bool,
    matrices: dict[str, Tensor],
    spectrum: bool,
) -> dict[str, Tensor]:
    """Summarize one layer over the selected heads and rows, and fill its matrices."""
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
            _fill_matrices(matrices, factored, weights, heads)
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


def _fill_matrices(matrices: dict[str, Tensor], factored: FactoredAttention, weights: Tensor, heads: list[int] | None) -> None:
    if matrices["raw"].data_ptr() != weights.data_ptr():
        matrices["raw"][:] = weights if heads is None else weights[heads]
    if heads is None:
        effective_matrices(factored, weights, out=matrices["effective"])
    else:
        matrices["effective"][:] = effective_matrices(factored, weights)[heads]
    torch.sub(matrices["raw"], matrices["effective"], out=matrices["null"])


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
        singular = singular_values(values)
        summaries["singular_values"] = per_head(singular, factored.heads)
        summaries["gap"] = per_head(_gap(singular, factored.rank.amax(-1)), factored.heads)
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
    """σ_r/σ_{r+1}, which shows how clear the rank is; infinite where the values have no further direction."""
    padded = torch.nn.functional.pad(spectrum, (0, 1))
    kept = padded.gather(-1, (rank - 1).clamp(min=0)[:, None])[:, 0]
    return kept / padded.gather(-1, rank[:, None])[:, 0]
