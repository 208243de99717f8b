"""Whether the output of a layer determines its attention: per head, for all heads together, and given the keys."""

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from identiformer.equations import factor_weights, key_constrained, layer_nullity
from identiformer.equations.attention.heads import group_of, per_head
from identiformer.equations.attention.rank import row_space
from identiformer.equations.attention.variants import with_sum
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
