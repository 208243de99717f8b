"""How far attention could have been different: for each weight the interval in which the output cannot tell. §3.1."""

from collections.abc import Iterator, Sequence
from dataclasses import astuple
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor

from identiformer.equations.arrays import floating, same_kind
from identiformer.equations.attention.effective import Visible, check_rows, check_shapes
from identiformer.equations.attention.output_projection import projection_root
from identiformer.equations.certificates.feasible_set import FeasibleSet
from identiformer.equations.certificates.output_coordinates import AMBIGUOUS, OutputCoordinates
from identiformer.equations.scaling import moderate_size
from identiformer.errors import InputError

SMALLEST_TOLERANCE = 1e-12
"""Less is lost among the roundings of float64."""


class WeightIntervals(NamedTuple):
    """Intervals of the weights of some rows, NaN where a weight was not asked for or its key is not visible."""

    low: Float64[Tensor, "query key"]
    high: Float64[Tensor, "query key"]
    low_reached: Float64[Tensor, "query key"]
    high_reached: Float64[Tensor, "query key"]
    confirmed: Bool[Tensor, "query key"]


@floating
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
    if 0 < tolerance < SMALLEST_TOLERANCE:
        raise InputError(
            f"expected a tolerance of {SMALLEST_TOLERANCE:g} or more, which float64 can tell from 0, got {tolerance:g}; use 0 "
            "for outputs that are exactly the same."
        )
    visibility = check_shapes(weights[None], values[None], visible)
    check_rows(weights[None], visibility, sink)
    if not bool((weights >= 0).all()):
        raise InputError("expected weights that are not negative; intervals are those of probabilities.")
    doubled = moderate_size(values)[0].double().cpu()
    output = doubled
    if projection is not None:
        root = projection_root(moderate_size(projection[None])[0].cpu())[0]
        output, lengths = doubled @ root, root.norm(dim=0)
        if bool(lengths.min() <= AMBIGUOUS * lengths.max()):
            doubled = output  # what H loses is not seen
    raw = weights.double().cpu().numpy()

    def rows() -> Iterator[tuple[int, np.ndarray, FeasibleSet]]:
        for queries, keys in visibility.patterns():
            coordinates = OutputCoordinates(doubled[keys], output[keys], precision or values.dtype, sink)
            for query in queries.tolist():
                yield query, keys.numpy(), FeasibleSet(coordinates, raw[query, keys.numpy()], tolerance)

    return rows()


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

    The output is the same when ‖(a' - a)VH‖ ≤ ε‖aVH‖, ε being the tolerance, 1e-12 or more; with 0 it is exactly the same: to
    64·max(n, d_v) roundings of float64, for V cut at its numerical rank. [low, high] is certain: no such row leaves it, but
    by the 1e-9 below which weights count as fixed. [low_reached, high_reached] has been reached. They part where directions of
    V have less than 1e-8 of its size: exactness is a matter of rounding there, and what is certain does not rely on it.
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
