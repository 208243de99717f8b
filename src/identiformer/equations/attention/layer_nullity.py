"""What a whole layer cannot see: its output is the sum over heads, so heads can also make up for one another."""

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from identiformer.equations.arrays import same_kind
from identiformer.equations.attention.effective import Visible, read_visibility
from identiformer.equations.attention.rank import numerical_rank
from identiformer.equations.scaling import moderate_size
from identiformer.errors import InputError


@same_kind
def layer_nullity(
    values: Float[Tensor, "group key width"],
    projection: Float[Tensor, "head value_width model"],
    visible: Visible = None,
    *,
    queries: int = 1,
    precision: torch.dtype | None = None,
) -> Int64[Tensor, " query"]:
    """How many directions of all heads' weights together leave Σ_h a_h·V_h·H_h as it is: h·n - rank of the stacked V_hH_h.

    It is at least the sum of the heads' own nullities, and more where the heads' widths add up to more than the model's.
    `queries` is how many rows there are where no mask says so.
    """
    groups, keys, width = values.shape
    heads = len(projection)
    if heads % groups or projection.shape[1] != width:
        raise InputError(
            "expected values (group key width) and projections (head width model) of one width, the number of heads a multiple "
            f"of that of groups, got {tuple(values.shape)} and {tuple(projection.shape)}."
        )
    mask_queries = queries if visible is None else visible.shape[0] if isinstance(visible, Tensor) else visible.queries
    visibility = read_visibility(visible, mask_queries, keys)
    # One power of two for all heads: they are compared with one another.
    moderate, slices = (moderate_size(each.flatten(0, 1))[0].view_as(each).double() for each in (values, projection))
    passed_on = moderate.repeat_interleave(heads // groups, 0) @ slices
    nullity = torch.empty(mask_queries, dtype=torch.int64)
    for rows, seen in visibility.patterns():
        stacked = passed_on[:, seen].flatten(0, 1)
        nullity[rows] = len(stacked) - numerical_rank(stacked, precision or values.dtype)
    return nullity
