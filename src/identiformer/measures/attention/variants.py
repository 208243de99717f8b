"""How variants of effective attention differ on a text."""

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from identiformer.equations import (
    effective_attention,
    maximum_entropy_attention,
    minimum_norm_attention,
    projection_root,
    soft_attention,
    sum_preserving_attention,
)
from identiformer.equations.attention.heads import group_of
from identiformer.measures.indices import Indices, select_indices
from identiformer.results import make_result
from identiformer.trace import RecordedLayer, Trace

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
