"""The reading of one head: which of its weight is certified, contributes, and is attributed to the token it points to."""

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float64
from torch import Tensor

from identiformer.equations.attention.contributions import is_sink
from identiformer.equations.certificates.contributions import Cascade, cascade, contribution_bounds
from identiformer.equations.certificates.map_bounds import MapBounds
from identiformer.measures.heads.heads import Heads
from identiformer.measures.heads.shares import Shares, head_shares
from identiformer.trace import RecordedHead

Map = Float64[Tensor, "row key"]


@dataclass(frozen=True, eq=False)
class HeadReading:
    """What may be read of one head, weight by weight and in all.

    `low` and `high` are certified bounds; before certification they are the weight itself, so that all shares are upper bounds.
    """

    head: RecordedHead
    weight: Map
    low: Map
    high: Map
    contribution: Map
    contribution_low: Map
    contribution_high: Map
    norm_share: Map
    passed: Cascade
    shares: Shares
    self_contribution: Float64[Tensor, " key"]
    output_share: float
    """How much of its layer's output the head writes."""
    bounds: MapBounds | None
    """None before certification."""

    @cached_property
    def category(self) -> Tensor:
        """The largest part of each weight, as an index into CATEGORIES."""
        return self.passed.category(self.weight).to(torch.int8)

    def largest_certified(self) -> float:
        """The share of rows whose largest weight is certified to be the largest: no other can reach its lower bound."""
        if self.bounds is None or not bool(self.bounds.high_solved.any()):
            return float("nan")
        largest = self.weight.argmax(-1, keepdim=True)
        others = self.high.nan_to_num(0).scatter(-1, largest, 0).amax(-1)
        return float((self.low.gather(-1, largest)[:, 0] > others).double().mean())

    def map(self, name: str) -> Tensor:
        """One of the maps of a reading, by its name in a result."""
        if name in ("contributing_weight", "readable_weight"):
            return getattr(self.passed, name.removesuffix("_weight"))
        return getattr(self.bounds if name.endswith("_solved") else self, name)

    def sinks(self) -> tuple[float, int]:
        """The share of the weight that is on attention sinks, a mean over rows, and the sink with most weight, or -1."""
        on_sinks = torch.where(is_sink(self.weight, self.contribution, self.norm_share), self.weight, 0.0)
        received = on_sinks.sum(-2)
        return float(on_sinks.sum(-1).mean(-1)), int(received.argmax(-1)) if bool(received.any()) else -1


def read_head(
    head: RecordedHead, heads: Heads, own: Float64[Tensor, " key"], bounds: MapBounds | None = None, tolerance: float = 0.0
) -> HeadReading:
    """Read one head; `own` is the self-contribution of each key's vector, NaN where it is unknown."""
    weight, found = heads.contributions(head)
    if bounds is None:
        low = high = torch.where(head.visible.dense().cpu(), weight, torch.nan)
        tolerance = 0.0
    else:
        low, high = bounds.low, bounds.high
    ends = contribution_bounds(low, high, found.per_weight[0], found.relative_length[0], tolerance)
    passed = cascade(weight, low, ends.low, own)
    return HeadReading(
        head, weight, low, high, found.contribution[0], ends.low, ends.high, found.norm_share[0], passed,
        head_shares(weight, passed, own), own, heads.output_share(head.layer, head.head), bounds,
    )  # fmt: skip
