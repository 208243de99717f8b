"""Whether the output of a layer determines its attention, and how the variants of attention with the same output differ."""

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from identiformer.equations import (
    effective_attention,
    factor_weights,
    key_constrained,
    layer_nullity,
    maximum_entropy_attention,
    minimum_norm_attention,
    projection_root,
    soft_attention,
    sum_preserving_attention,
)
from identiformer.equations.attention.heads import group_of, per_head
from identiformer.equations.attention.rank import row_space
from identiformer.equations.attention.variants import with_sum
from identiformer.measures.indices import Indices, select_indices
from identiformer.results import make_result
from identiformer.trace import RecordedLayer, Trace


def attention_identifiability(trace: Trace, layer: int, *, kind: str | None = None) -> xr.Dataset:
    """Test whether the output of a layer determines its attention, row by row and in three senses.

    Parameters
    ----------
    trace : Trace
        With recorded weights.
    layer : int
        Counted from 1.
    kind : str, optional
        Attention type; the first of the trace by default.

    Returns
    -------
    xarray.Dataset
        If any weights are allowed (§3.1): `rank` and `nullity` of the visible values, and `simplex_nullity`, where rows keep
        their sum (head, query). For all heads together: `layer_nullity`, of the directions that leave the sum of the heads'
        outputs unchanged, and `heads_nullity`, the sum over heads; if the first is larger, heads can compensate for one
        another (query). If only attention that these keys can generate is allowed (`equations.key_constrained`):
        `key_constrained_identifiable`, locally; `key_constrained_smallest`, the smallest singular value of ∂o/∂q over the
        `key_constrained_dimension` directions that change attention; `key_constrained_condition` (head, query).

    Examples
    --------
    >>> import identiformer as idf
    >>> trace = idf.load("minilm").trace("He said that the pie was his.")
    >>> int(idf.attention_identifiability(trace, layer=4).nullity.max())
    0
    """
    record = trace.layer(layer, kind).recorded()
    stack = trace.stack(kind)
    ranks = head_ranks(record)
    arrays: dict[str, Tensor] = {**ranks, "heads_nullity": ranks["nullity"].sum(0)}
    if record.projection is not None:
        count = len(stack.queries)
        visible = None if record.visible.shared else record.visible
        arrays["layer_nullity"] = layer_nullity(record.values, record.projection, visible, queries=count)
    if record.keys is not None:
        arrays |= _key_constrained(record, record.keys)
    coordinates = {
        "head": np.arange(record.heads),
        "query": np.arange(len(stack.queries)),
        "query_token": ("query", np.array(stack.queries.texts)),
        "layer": layer,
    }
    settings = {"kind": stack.kind, "layer": layer}
    return make_result("attention_identifiability", arrays, coordinates, trace.source, settings)


def head_ranks(record: RecordedLayer) -> dict[str, Tensor]:
    """The `rank`, `nullity` and `simplex_nullity` of every row of every head."""
    values, precision = record.transmitted_values(), record.values.dtype
    rank = per_head(_rank(record, values, precision), record.heads)
    nullity = record.visible.counts - rank
    simplex_nullity = nullity
    if not record.sink:  # n - rank([V, 1]) of the keys visible to each row
        summed = with_sum(values.to(torch.promote_types(values.dtype, torch.float32)))
        simplex_nullity = record.visible.counts - per_head(_rank(record, summed, precision), record.heads)
    return {"rank": rank, "nullity": nullity, "simplex_nullity": simplex_nullity}


def _rank(record: RecordedLayer, values: Tensor, precision: torch.dtype) -> Tensor:
    """The rank of the values visible to each row, per group of heads."""
    if record.visible.shared:
        return row_space(values.double(), precision).rank[:, None].expand(-1, record.visible.queries)
    return factor_weights(record.weights, values, record.visible, precision).rank


def _key_constrained(record: RecordedLayer, keys: Tensor) -> dict[str, Tensor]:
    values, count = record.transmitted_values(), record.heads
    heads = [
        key_constrained(
            weights, keys[group_of(head, count, len(keys))], values[group_of(head, count, len(values))], record.scaling
        )
        for head, weights in enumerate(record.weights)
    ]
    return {
        f"key_constrained_{name}": torch.stack([getattr(head, name) for head in heads])
        for name in ("identifiable", "smallest", "dimension", "condition")
    }


VARIANTS = ("raw", "effective", "soft", "sum_preserving", "minimum_norm", "maximum_entropy")


def attention_variants(trace: Trace, layer: int, *, heads: Indices | None = None, kind: str | None = None) -> xr.Dataset:
    """Compare raw attention with its variants over all rows of some heads of a layer, the open question of §7.

    Parameters
    ----------
    trace : Trace
        With recorded weights.
    layer : int
        Counted from 1.
    heads : int or sequence of int, optional
        Heads to compare; all by default.
    kind : str, optional
        Attention type; the first of the trace by default.

    Returns
    -------
    xarray.Dataset
        Over (variant): `sum_error`, mean |Σa - Σa_raw|; `negative_share`, Σ|a₋|/Σ|a|; `squared_norm`, mean ‖a‖²; `entropy`, mean,
        in nats, NaN if a row is negative; `total_variation`, mean ½Σ|a - a_raw|; `correlation_with_raw` and
        `correlation_with_effective` over visible entries; `output_error`, the largest ‖(a - a_raw)V‖/‖a_raw V‖; and
        `undecided_rows`, for which the variant was not found and which its other numbers leave out.

    Examples
    --------
    >>> import identiformer as idf
    >>> trace = idf.load("minilm").trace("He said that the pie was his.")
    >>> idf.attention_variants(trace, layer=4, heads=3)["variant"].values.tolist()
    ['raw', 'effective', 'soft', 'sum_preserving', 'minimum_norm', 'maximum_entropy']
    """
    record = trace.layer(layer, kind).recorded()
    chosen = torch.tensor(select_indices(heads, record.heads, "head"))
    weights, values = record.weights[chosen].double(), record.transmitted_values()
    values = values.double()[group_of(chosen, record.heads, len(values))]
    computed = _compute(record, weights, values, chosen)
    columns = [_compare(computed[name], computed["raw"], computed["effective"], values, record) for name in VARIANTS]
    arrays = {name: np.array([column[name] for column in columns]) for name in columns[0]}
    settings = {"layer": layer, "heads": chosen.tolist(), "kind": trace.stack(kind).kind}
    return make_result("attention_variants", arrays, {"variant": list(VARIANTS)}, trace.source, settings)


def _compute(record: RecordedLayer, weights: Tensor, values: Tensor, heads: Tensor) -> dict[str, Tensor]:
    visible, sink = record.visible, record.sink
    precision = record.values.dtype
    in_output = values if record.projection is None else values @ projection_root(record.projection[heads])
    return {
        "raw": weights,
        "effective": effective_attention(weights, values, visible, sink=sink, precision=precision),
        "soft": soft_attention(weights, in_output, visible, sink=sink),
        "sum_preserving": sum_preserving_attention(weights, values, visible, sink=sink, precision=precision),
        "minimum_norm": minimum_norm_attention(weights, values, visible, sink=sink, precision=precision),
        "maximum_entropy": maximum_entropy_attention(weights, values, visible, sink=sink, precision=precision),
    }


def _compare(rows: Tensor, raw: Tensor, effective: Tensor, values: Tensor, record: RecordedLayer) -> dict[str, float]:
    decided = ~rows.isnan().any(-1)
    rows, raw_rows, effective_rows = rows[decided], raw[decided], effective[decided]
    visible = record.visible.dense().expand(len(raw), -1, -1)[decided]
    filled = torch.zeros_like(raw)
    filled[decided] = rows
    outputs, raw_outputs = (torch.where(decided[..., None], each, 0.0) @ values for each in (filled, raw))
    moved = (outputs - raw_outputs)[decided].norm(dim=-1) / raw_outputs[decided].norm(dim=-1)
    negative = bool((rows < -1e-9).any())
    entropy = torch.special.entr(rows.clamp(min=0)).sum(-1).mean()
    return {
        "sum_error": float((rows.sum(-1) - raw_rows.sum(-1)).abs().mean()),
        "negative_share": float(rows.clamp(max=0).abs().sum() / rows.abs().sum()),
        "squared_norm": float(rows.square().sum(-1).mean()),
        "entropy": float("nan") if negative else float(entropy),
        "total_variation": float((rows - raw_rows).abs().sum(-1).mean() / 2),
        "correlation_with_raw": _pearson(rows[visible], raw_rows[visible]),
        "correlation_with_effective": _pearson(rows[visible], effective_rows[visible]),
        "output_error": float(moved.max()) if moved.numel() else 0.0,
        "undecided_rows": int((~decided).sum()),
    }


def _pearson(first: Tensor, second: Tensor) -> float:
    return float(torch.corrcoef(torch.stack([first, second]))[0, 1])
