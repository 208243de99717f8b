"""The stream of readings: one head in, one reading out, in the order that is asked for."""

from collections.abc import Iterator, Sequence
from contextlib import closing

import torch
from torch import Tensor

from identiformer.errors import InputError
from identiformer.measures.attention.ambiguity import default_tolerance
from identiformer.measures.heads.certification import certify_heads
from identiformer.measures.heads.heads import Heads
from identiformer.measures.heads.reading import HeadReading, read_head
from identiformer.progress import WorkBar, work_bar


def read_heads(
    heads: Heads,
    own: Tensor,
    tolerance: float,
    *,
    certify: bool,
    order: Sequence[tuple[int, int]] | None = None,
    upper: bool = True,
    processes: int | None = None,
    progress: bool | WorkBar = False,
) -> Iterator[HeadReading]:
    """Read heads one after another; with `certify`, as their bounds are computed.

    Parameters
    ----------
    heads : Heads
        Those to read.
    own : float64 tensor (layer key)
        The self-contributions of the vectors that keys are made of; NaN where unknown.
    tolerance : float
        Of the bounds.
    certify : bool
        Whether to compute certified bounds.
    order : sequence of (layer, head), optional
        Which heads to begin with, and to read at all; by default all, layer by layer.
    upper : bool
        Whether to compute upper bounds too, which matter where a contribution is negative.
    processes, progress
        As in `attention_reading`.
    """
    count = len(heads) if order is None else len(order)
    records = iter(heads) if order is None else heads.in_order(order)
    self_contribution = dict(zip(heads.layers, own, strict=True))
    if not certify:
        for head in records:
            yield read_head(head, heads, self_contribution[head.layer])
        return
    with (
        work_bar("certifying", progress) as bar,
        closing(certify_heads(records, count, tolerance, processes, bar, upper)) as certified,
    ):
        for head, bounds in certified:
            yield read_head(head, heads, self_contribution[head.layer], bounds, tolerance)


def check_tolerance(tolerance: float | None, dtype: torch.dtype) -> float:
    """The tolerance of bounds for values of this precision; raises if it is not a share of the output's length."""
    tolerance = default_tolerance(dtype) if tolerance is None else tolerance
    if not 0 < tolerance < 1:
        raise InputError(f"expected a tolerance between 0 and 1, as a share of the output's length, got {tolerance:g}.")
    return tolerance
