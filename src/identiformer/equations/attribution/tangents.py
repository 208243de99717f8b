"""Analytic forward derivatives of the steps of a transformer block at a point.

Many tangents are pushed at once, (tangent position width). Under a causal mask a change at one position does not affect
earlier ones, so tangents may start at a position `first`: the rows before it are zero and left out.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

Tangents = Float[Tensor, "tangent reached width"]


@dataclass(frozen=True, eq=False)
class NormTangent:
    """LayerNorm or RMSNorm, y = γz + β with z = (x - mean)/σ or x/rms: dy = γ/σ·(dx - mean(dx) - z·mean(z·dx))."""

    normalized: Float[Tensor, "position width"]
    """z."""
    weight: Float[Tensor, " width"]
    """γ."""
    scale: Float[Tensor, "position 1"]
    """1/σ, or 1/rms."""
    centered: bool

    @classmethod
    def at(
        cls, point: Float[Tensor, "position width"], weight: Float[Tensor, " width"], epsilon: float, centered: bool
    ) -> "NormTangent":
        shifted = point - point.mean(-1, keepdim=True) if centered else point
        scale = (shifted.square().mean(-1, keepdim=True) + epsilon).rsqrt()
        return cls(shifted * scale, weight, scale, centered)

    @cached_property
    def gain(self) -> Float[Tensor, "position width"]:
        """γ/σ."""
        return self.weight * self.scale

    def push(self, tangents: Tangents, first: int) -> Tangents:
        normalized = self.normalized[first:]
        along = torch.einsum("tpw,pw->tp", tangents, normalized).div_(-normalized.shape[-1])[..., None]
        moved = torch.addcmul(tangents, normalized, along)
        if self.centered:
            moved -= tangents.mean(-1, keepdim=True)
        return moved.mul_(self.gain[first:])


@dataclass(frozen=True, eq=False)
class AttentionTangent:
    """o = av with a = softmax(s·qk^T), heads in groups that share keys and values: da = a(ds - Σ a·ds), do = da·v + a·dv.

    The formula also holds for rows that sum to less than one because a learned sink takes the rest.
    """

    queries: Float[Tensor, "group repeat position width"]
    keys: Float[Tensor, "group position width"]
    values: Float[Tensor, "group position value_width"]
    weights: Float[Tensor, "group repeat position position"]
    scaling: float

    def push(
        self,
        queries: Float[Tensor, "group tangent repeat reached width"],
        keys: Float[Tensor, "group tangent reached width"],
        values: Float[Tensor, "group tangent reached value_width"],
        first: int,
    ) -> Float[Tensor, "group tangent repeat reached value_width"]:
        groups, tangents, repeat, reached, _ = queries.shape
        weights = self.weights[:, None, :, first:].flatten(2, 3)
        own_queries = self.queries[:, None, :, first:].flatten(2, 3)
        change = torch.bmm(queries.flatten(1, 3), self.keys.mT).view(groups, tangents, repeat * reached, -1)
        change[..., first:] += own_queries @ keys.mT
        change.mul_(self.scaling).mul_(weights)
        change.addcmul_(weights, change.sum(-1, keepdim=True), value=-1)
        outputs = torch.bmm(change.flatten(1, 2), self.values).view(groups, tangents, repeat * reached, -1)
        outputs += weights[..., first:] @ values
        return outputs.unflatten(2, (repeat, reached))


@dataclass(frozen=True, eq=False)
class FeedForwardTangent:
    """y = f(xU)D, or (f(xG)·xU)D where it is gated: each hidden feature changes by its slope at the point."""

    into: Float[Tensor, "width features"]
    """U, or G and U concatenated."""
    slopes: Float[Tensor, "parts position hidden"]
    """f'(xU); where gated, f'(xG)·xU and f(xG)."""
    out_of: Float[Tensor, "hidden width"]

    def push(self, tangents: Tangents, residual: Tangents, first: int) -> Tangents:
        """The change of y, added to that of the residual."""
        moved = (tangents.flatten(0, 1) @ self.into).view(*tangents.shape[:2], len(self.slopes), -1)
        hidden = moved[:, :, 0].mul_(self.slopes[0, first:])
        if len(self.slopes) == 2:
            hidden = hidden.addcmul_(moved[:, :, 1], self.slopes[1, first:])
        return torch.addmm(residual.flatten(0, 1), hidden.flatten(0, 1), self.out_of).view_as(residual)


class Moved(NamedTuple):
    """Tangents after a block."""

    hidden: Float[Tensor, "tangent reached width"]
    head_outputs: Float[Tensor, "tangent head reached value_width"]


@dataclass(frozen=True, eq=False)
class BlockTangent:
    """Attention and feed-forward, each with a residual connection; norms after the sum (BERT) or before the sublayer (Llama)."""

    attention_norm: NormTangent
    feed_forward_norm: NormTangent
    norms_follow: bool
    into_heads: Float[Tensor, "width features"]
    """The maps to queries, keys and values, concatenated."""
    rotation: tuple[Float[Tensor, "position head_width"], Float[Tensor, "position head_width"]] | None
    """Cosines and sines of a rotary position embedding."""
    attention: AttentionTangent
    out_of_heads: Float[Tensor, "outputs width"]
    feed_forward: FeedForwardTangent

    @property
    def maps(self) -> tuple[Tensor, ...]:
        """The matrices of the block, which do not depend on the text."""
        return self.into_heads, self.out_of_heads, self.feed_forward.into, self.feed_forward.out_of

    def push(self, tangents: Tangents, first: int) -> Moved:
        read = tangents if self.norms_follow else self.attention_norm.push(tangents, first)
        heads = self.attention.push(*self._split(read, first), first)
        outputs = rearrange(heads, "group tangent repeat reached width -> tangent reached (group repeat width)")
        middle = torch.addmm(tangents.flatten(0, 1), outputs.flatten(0, 1), self.out_of_heads).view_as(tangents)
        per_head = rearrange(heads, "group tangent repeat reached width -> tangent (group repeat) reached width")
        if self.norms_follow:
            middle = self.attention_norm.push(middle, first)
            return Moved(self.feed_forward_norm.push(self.feed_forward.push(middle, middle, first), first), per_head)
        return Moved(self.feed_forward.push(self.feed_forward_norm.push(middle, first), middle, first), per_head)

    def _split(self, read: Tangents, first: int) -> tuple[Tensor, Tensor, Tensor]:
        """Tangents of queries (group tangent repeat reached width), keys and values (group tangent reached width)."""
        tangents, reached, _ = read.shape
        groups, repeat, _, width = self.attention.queries.shape
        sizes = (groups * repeat * width, groups * width, groups * self.attention.values.shape[-1])
        by_query, by_key, by_value = (read.flatten(0, 1) @ self.into_heads).view(tangents, reached, -1).split(sizes, -1)
        pattern = "tangent reached (group repeat width) -> group tangent repeat reached width"
        queries = self._turn(rearrange(by_query, pattern, group=groups, repeat=repeat), first).contiguous()
        pattern = "tangent reached (group width) -> group tangent reached width"
        keys, values = (rearrange(part, pattern, group=groups) for part in (by_key, by_value))
        return queries, self._turn(keys, first).contiguous(), values.contiguous()

    def _turn(self, tangents: Float[Tensor, "*some reached width"], first: int) -> Float[Tensor, "*some reached width"]:
        if self.rotation is None:
            return tangents
        cosine, sine = (part[first:] for part in self.rotation)
        left, right = tangents.chunk(2, -1)
        return torch.cat([-right, left], -1).mul_(sine).addcmul_(tangents, cosine)
