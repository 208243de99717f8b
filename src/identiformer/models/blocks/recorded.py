"""What a block computes on one text: its residual stream, its norms and its feed-forward layer."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from identiformer.models.blocks.layout import Linear


@dataclass(frozen=True, eq=False)
class RecordedNorm:
    """LayerNorm or RMSNorm at the positions of a text: y = γ(x - m)/s + β, with m and s the statistics of each position."""

    weight: Float[Tensor, " width"]
    """γ."""
    bias: Float[Tensor, " width"]
    """β; zero where the norm has none."""
    epsilon: float
    centered: bool
    """Whether m is the mean, as in LayerNorm, instead of 0, as in RMSNorm."""
    mean: Float64[Tensor, " position"]
    """m."""
    scale: Float64[Tensor, " position"]
    """s: the standard deviation, or the root of the mean square, with ε."""
    output: Float64[Tensor, "position width"]

    def linear(self, parts: Float[Tensor, "*part position width"]) -> Float[Tensor, "*part position width"]:
        """γ(part - mean(part))/s: what parts that sum to the input are of its output without β, with the statistics fixed."""
        return self.numerator(parts) / self.scale[:, None].to(parts)

    def numerator(self, parts: Float[Tensor, "*part width"]) -> Float[Tensor, "*part width"]:
        """γ(part - mean(part)), which does not depend on the position."""
        centered = parts - parts.mean(-1, keepdim=True) if self.centered else parts
        return centered * self.weight.to(parts)


@dataclass(frozen=True, eq=False)
class RecordedFeedForward:
    """y = f(xU + b)D + d, or (f(xG + g)·(xU + b))D + d where it is gated."""

    into: tuple[Linear, ...]
    """U; where gated, G and U."""
    features: tuple[Tensor, ...]
    """What `into` maps to, before the activation: float64 (position hidden)."""
    activation: Callable[[Tensor], Tensor]
    out_of: Linear
    output: Float64[Tensor, "position width"]

    @property
    def gated(self) -> bool:
        """Whether features are multiplied by a gate."""
        return len(self.into) == 2


@dataclass(frozen=True, eq=False)
class RecordedBlock:
    """One block at a text. States are float64; weights are those of the network.

    With norms after the sums (BERT): middle = norm(x + attention), output = norm(middle + feed-forward(middle)).
    With norms before the sublayers (Llama, GPT-2): middle = x + attention(norm(x)), output = middle + feed-forward(norm(middle)).
    """

    norms_follow: bool
    x: Float64[Tensor, "position width"]
    """The residual stream before the block."""
    values: Linear
    """The map from what attention reads, x or its norm, to values, (width group·value_width)."""
    projection: Linear
    """The output projection of attention, (head·value_width width)."""
    attention: Float64[Tensor, "position width"]
    """What attention adds to x, with the bias of the projection."""
    attention_norm: RecordedNorm
    middle: Float64[Tensor, "position width"]
    """The residual stream between attention and feed-forward layer."""
    feed_forward: RecordedFeedForward
    feed_forward_norm: RecordedNorm
    output: Float64[Tensor, "position width"]
    """The residual stream after the block."""

    @property
    def read(self) -> Float64[Tensor, "position width"]:
        """What the maps to queries, keys and values read."""
        return self.x if self.norms_follow else self.attention_norm.output


@dataclass(frozen=True, eq=False)
class RecordedBlocks:
    """All blocks of a model at a text."""

    blocks: tuple[RecordedBlock, ...]
    final_norm: RecordedNorm | None
    """After the last block; None where the model has none."""
    result: Float64[Tensor, "position width"]
    """The last hidden state: after the final norm where there is one."""


def norm_at(
    point: Float64[Tensor, "position width"],
    weight: Float[Tensor, " width"],
    bias: Float[Tensor, " width"],
    epsilon: float,
    centered: bool,
) -> RecordedNorm:
    """A norm at a point, with its statistics and its output."""
    mean = point.mean(-1) if centered else torch.zeros_like(point[:, 0])
    shifted = point - mean[:, None]
    scale = (shifted.square().mean(-1) + epsilon).sqrt()
    output = shifted / scale[:, None] * weight + bias
    return RecordedNorm(weight, bias, epsilon, centered, mean, scale, output)
