"""What of a layer's attention its output tells: head by head, of all heads together, and of what its keys can generate."""

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from identiformer.equations import factor_weights, key_constrained, layer_nullity
from identiformer.equations.attention.heads import group_of, per_head
from identiformer.equations.attention.rank import row_space
from identiformer.results import describe
from identiformer.results.schema import VARIABLES
from identiformer.trace import RecordedLayer, Trace


def attention_identifiability(trace: Trace, layer: int, *, kind: str | None = None) -> xr.Dataset:
    """Whether the output of a layer tells its attention, for each row, in three senses.

    Any weights allowed (§3.1), over (head query): `rank` and `nullity` of the values of the keys that the row sees,
    `simplex_nullity`, what is left when rows must sum as attention does.
    All heads together, over query: `layer_nullity`, directions that leave the sum of the heads' outputs as it is, and
    `heads_nullity`, the sum of the heads' own; more of the first means that heads can make up for one another.
    Only attention that these keys can generate (another question, see `equations.key_constrained`), over (head query):
    `key_constrained_identifiable`, locally; `key_constrained_smallest`, the smallest singular value of ∂o/∂q over the
    `key_constrained_dimension` directions that change attention; `key_constrained_condition`.
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
        arrays |= _by_keys(record, record.keys)
    variables = {
        name: (dims, arrays[name].numpy()) for name, dims in VARIABLES["attention_identifiability"].items() if name in arrays
    }
    coordinates = {
        "head": np.arange(record.heads),
        "query": np.arange(len(stack.queries)),
        "query_token": ("query", np.array(stack.queries.texts)),
        "layer": layer,
    }
    return describe(
        xr.Dataset(variables, coordinates), "attention_identifiability", trace.source, {"kind": stack.kind, "layer": layer}
    )


def head_ranks(record: RecordedLayer) -> dict[str, Tensor]:
    """Of every row of every head: `rank`, `nullity` and `simplex_nullity`."""
    values, precision = record.transmitted_values(), record.values.dtype
    rank = per_head(_rank(record, values, precision), record.heads)
    nullity = record.visible.counts - rank
    simplex_nullity = nullity if record.sink else record.visible.counts - _rank_with_sum(record, values, precision)
    return {"rank": rank, "nullity": nullity, "simplex_nullity": simplex_nullity}


def _rank(record: RecordedLayer, values: Tensor, precision: torch.dtype) -> Tensor:
    """The rank of the values that each row sees, of each group of heads."""
    if record.visible.shared:
        return row_space(values.double(), precision).rank[:, None].expand(-1, record.weights.shape[1])
    return factor_weights(record.weights, values, record.visible, precision).rank


def _rank_with_sum(record: RecordedLayer, values: Tensor, precision: torch.dtype) -> Tensor:
    """rank([V, 1]) of the keys that each row sees."""
    values = values.to(torch.promote_types(values.dtype, torch.float32))
    scale = values.square().mean((-1, -2), keepdim=True).sqrt()
    column = torch.where(scale > 0, scale, 1.0).expand(*values.shape[:2], 1)
    return per_head(_rank(record, torch.cat([values, column], -1), precision), record.heads)


def _by_keys(record: RecordedLayer, keys: Tensor) -> dict[str, Tensor]:
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
