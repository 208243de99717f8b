"""How far attention could have been different: for each weight the interval in which the output cannot tell. §3.1."""

from collections.abc import Iterator, Sequence
from dataclasses import astuple
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor

from identiformer.equations.arrays import same_kind
from identiformer.equations.effective_attention import Visible, check_rows, check_shapes
from identiformer.equations.feasible_set import FeasibleSet, OutputCoordinates
from identiformer.equations.output_projection import full_row_rank, projection_root
from identiformer.errors import InputError


class WeightIntervals(NamedTuple):
    """Intervals of the weights of some rows, NaN where a weight was not asked for or its key is not visible."""

    low: Float64[Tensor, "query key"]
    high: Float64[Tensor, "query key"]
    low_reached: Float64[Tensor, "query key"]
    high_reached: Float64[Tensor, "query key"]
    confirmed: Bool[Tensor, "query key"]


def feasible_sets(
    weights: Float[Tensor, "query key"],
    values: Float[Tensor, "value_key width"],
    visible: Visible = None,
    *,
    tolerance: float,
    projection: Float[Tensor, "value_width model"] | None = None,
    sink: bool = False,
    precision: torch.dtype | None = None,
) -> Iterator[tuple[int, np.ndarray, FeasibleSet]]:
    """For each row of one head: its query, the keys that it sees and F_ε(a) over those keys.

    Rows that see the same keys come one after the other and share what they can.
    """
    if not 0 <= tolerance < 1:
        raise InputError(f"expected a tolerance from 0 to 1, as a share of the output's length, got {tolerance:g}.")
    visibility = check_shapes(weights[None], values[None], visible)
    check_rows(weights[None], visibility, sink)
    if not bool((weights >= 0).all()):
        raise InputError("expected weights that are not negative; intervals are those of probabilities.")
    doubled = values.double().cpu()
    output = doubled
    if projection is not None:
        output = doubled @ projection_root(projection[None].cpu())[0]
        if not bool(full_row_rank(projection[None])):
            doubled = output  # what H loses is not seen
    raw = weights.double().cpu().numpy()
    for queries, keys in visibility.patterns():
        coordinates = OutputCoordinates(doubled[keys], output[keys], precision or values.dtype, sink)
        for query in queries.tolist():
            yield query, keys.numpy(), FeasibleSet(coordinates, raw[query, keys.numpy()], tolerance)


@same_kind
def weight_intervals(
    weights: Float[Tensor, "query key"],
    values: Float[Tensor, "value_key width"],
    visible: Visible = None,
    *,
    tolerance: float = 1e-4,
    keys: Sequence[int] | None = None,
    projection: Float[Tensor, "value_width model"] | None = None,
    sink: bool = False,
    precision: torch.dtype | None = None,
) -> WeightIntervals:
    """For each weight of one head how low and how high it can be, as attention, with the output the same.

    The output is the same when ‖(a' - a)VH‖ ≤ ε‖aVH‖, ε being the tolerance; with 0 it is exactly the same, up to the
    numerical rank of V. [low, high] is certain: no such row leaves it. [low_reached, high_reached] has been reached.
    Without a projection H lengths are those of V. With a sink rows may sum to anything up to one.

    >>> values = torch.tensor([[0.0], [1.0], [2.0]])
    >>> found = weight_intervals(torch.tensor([[0.5, 0.3, 0.2]]), values, tolerance=0.0)  # a + t·(1, -2, 1) is seen alike
    >>> found.low, found.high
    (tensor([[0.3000, 0.0000, 0.0000]], dtype=torch.float64), tensor([[0.6500, 0.7000, 0.3500]], dtype=torch.float64))
    """
    count = weights.shape[-1]
    wrong = [key for key in keys or () if not 0 <= key < count]
    if wrong:
        raise InputError(f"expected keys from 0 to {count - 1}, got {wrong[0]}.")
    asked = np.isin(np.arange(count), range(count) if keys is None else keys)
    found = np.full((5, *weights.shape), np.nan)
    options = {"tolerance": tolerance, "projection": projection, "sink": sink, "precision": precision}
    for query, seen, feasible in feasible_sets(weights, values, visible, **options):
        for place in np.flatnonzero(asked[seen]).tolist():
            found[:, query, seen[place]] = astuple(feasible.interval(np.eye(1, len(seen), place)[0]))
    low, high, low_reached, high_reached, confirmed = torch.from_numpy(found)
    return WeightIntervals(low, high, low_reached, high_reached, confirmed == 1)
