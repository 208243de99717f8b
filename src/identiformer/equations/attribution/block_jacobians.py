"""Exact Jacobians of one block between all pairs of its positions.

Only attention mixes positions. With F_i the derivative of everything after attention at position i, R_j that of the norm before
attention at position j (the identity where norms follow), and o_i the output of a head:

    ∂e_i/∂x_j = R_j·Σ_h (∂o_i/∂r_j)·H·F_i + (i = j)·F_i,
    ∂o_i/∂r_j = a_ij·W_V + s·a_ij·(W_K·q_i)⊗(v_j - o_i) + (i = j)·s·W_Q·Σ_k a_ik·k_k⊗(v_k - o_i),

with r what attention reads and s the scaling of scores; queries and keys are turned back by the rotary embedding of the position
that moves. So one matrix F_i per position replaces one tangent per position and direction through the whole block, and norms need
only products of W_V and W_K with each other and of HF_i with itself.
"""

from functools import cached_property

import torch
from einops import rearrange
from jaxtyping import Float, Float64
from torch import Tensor

from identiformer.equations.attention.heads import per_head
from identiformer.equations.attribution.tangents import BlockTangent, NormTangent

Square = Float[Tensor, "width width"]
Written = Float[Tensor, "head value_width width"]
"""HF_i."""


def block_jacobian_norms(block: BlockTangent, final_norm: NormTangent | None = None) -> Float64[Tensor, "target source"]:
    """‖∂e_i/∂x_j‖, the Frobenius norm, between all positions; e after the final norm if the block is the last."""
    heads = _Heads(block)
    rows = []
    for target in range(heads.weights.shape[-1]):
        local = _after_attention(block, final_norm, target)
        written = heads.projection @ local
        norms = heads.norms(target, written)
        norms[target] = (heads.own_jacobian(target, written) + local).norm()
        rows.append(norms.double().cpu())
    return torch.stack(rows)


def _after_attention(block: BlockTangent, final_norm: NormTangent | None, position: int) -> Square:
    """F_i: from the sum of residual stream and attention to the output of the block."""
    layer = block.feed_forward
    into = layer.into.unflatten(-1, (len(layer.slopes), -1))
    local = torch.einsum("wsh,sh->wh", into, layer.slopes[:, position]) @ layer.out_of
    if block.norms_follow:
        local.diagonal().add_(1)
        local = _before(block.attention_norm, _after(local, block.feed_forward_norm, position), position)
    else:
        local = _before(block.feed_forward_norm, local, position)
        local.diagonal().add_(1)
    return local if final_norm is None else _after(local, final_norm, position)


def _after(jacobian: Square, norm: NormTangent, position: int) -> Square:
    """A Jacobian followed by that of a norm, R = (I - 11ᵀ/d - zzᵀ/d)·diag(γ/σ), at a position."""
    normalized = norm.normalized[position]
    moved = torch.addr(jacobian, jacobian @ normalized, normalized, alpha=-1 / len(normalized))
    if norm.centered:
        moved -= jacobian.mean(-1, keepdim=True)
    return moved.mul_(norm.gain[position])


def _before(norm: NormTangent, jacobian: Square, position: int) -> Square:
    """The Jacobian of a norm at a position, followed by another."""
    normalized = norm.normalized[position]
    scaled = jacobian * norm.gain[position][:, None]
    moved = torch.addr(scaled, normalized, normalized @ scaled, alpha=-1 / len(normalized))
    return moved.sub_(scaled.mean(0)) if norm.centered else moved


class _Heads:
    """The attention of a block, one entry per query head, and the norm before it."""

    def __init__(self, block: BlockTangent) -> None:
        attention = block.attention
        groups, repeat, _, width = attention.queries.shape
        heads, value_width = groups * repeat, attention.values.shape[-1]
        by_query, by_key, by_value = block.into_heads.split((heads * width, groups * width, groups * value_width), -1)
        pattern = "model (head width) -> head model width"
        self.weights: Float[Tensor, "head position position"] = attention.weights.flatten(0, 1)
        self.queries: Float[Tensor, "head position head_width"] = attention.queries.flatten(0, 1)
        self.keys: Float[Tensor, "head position head_width"] = per_head(attention.keys, heads)
        self.values: Float[Tensor, "head position value_width"] = per_head(attention.values, heads)
        self.into_queries: Float[Tensor, "head width head_width"] = rearrange(by_query, pattern, head=heads)
        self.into_keys: Float[Tensor, "head width head_width"] = per_head(rearrange(by_key, pattern, head=groups), heads)
        self.into_values: Float[Tensor, "head width value_width"] = per_head(rearrange(by_value, pattern, head=groups), heads)
        pattern = "(head width) model -> head width model"
        self.projection: Float[Tensor, "head value_width width"] = rearrange(block.out_of_heads, pattern, head=heads)
        self.rotation, self.scaling = block.rotation, attention.scaling
        self.norm = None if block.norms_follow else block.attention_norm

    def norms(self, target: int, written: Written) -> Float[Tensor, " position"]:
        """‖R_j·Σ_h (∂o_i/∂r_j)·H·F_i‖ for a target i and all sources j except itself."""
        weights, apart = self.weights[:, target], self._apart(target)
        query = self.queries[:, target, None].expand_as(self.queries)
        query = self._turned_back(query, slice(None)) * (self.scaling * weights)[..., None]
        values_values, keys_values, keys_keys = self._products
        outputs = torch.einsum("hwm,gvm->hwgv", written, written)
        # The squared norm of a sum over heads of a·W_V·B + (W_K·q)⊗(v - o)B, with B = HF_i: squares, and twice the products.
        squared = torch.einsum("hj,hg,gj->j", weights, (values_values * outputs).sum((1, 3)), weights)
        moved = _times(apart, outputs)
        squared += 2 * torch.einsum("gj,hjg->j", weights, (moved * _times(query, keys_values)).sum(-1))
        products = (torch.einsum("hjgw,gjw->hjg", *pair) for pair in ((moved, apart), (_times(query, keys_keys), query)))
        squared += torch.einsum("hjg,hjg->j", *products)
        if self.norm is not None:
            along_values, along_keys = self._along
            along = weights[..., None] * along_values + (query * along_keys).sum(-1, keepdim=True) * apart
            removed = torch.einsum("hjgw,gjw->j", _times(along, outputs), along)
            width = self.norm.normalized.shape[1]
            share = (2 - self.norm.normalized.square().mean(-1)) / width
            squared = (squared - share * removed) * self.norm.scale[:, 0].square()
        return squared.clamp(min=0).sqrt()

    def own_jacobian(self, target: int, written: Written) -> Square:
        """R_i·Σ_h (∂o_i/∂r_i)·H·F_i."""
        weights, apart = self.weights[:, target], self._apart(target)
        own = weights[:, target, None, None]
        query = self._turned_back(self.queries[:, target, None], slice(target, target + 1))
        keys = self._turned_back(self.keys, slice(target, target + 1))
        by_key = (self.into_keys @ query.mT) @ apart[:, target, None]
        by_query = self.into_queries @ ((keys * weights[..., None]).mT @ apart)
        into_outputs = own * self.into_values + self.scaling * (own * by_key + by_query)
        jacobian = torch.einsum("hmw,hwn->mn", into_outputs, written)
        return jacobian if self.norm is None else _before(self.norm, jacobian, target)

    @cached_property
    def _read(self) -> tuple[Tensor, Tensor]:
        """W_V and W_K (head width value_width), with γ of the norm before and without the mean that it removes."""
        if self.norm is None:
            return self.into_values, self.into_keys
        values, keys = (weight * self.norm.weight[:, None] for weight in (self.into_values, self.into_keys))
        if not self.norm.centered:
            return values, keys
        return values - values.mean(1, keepdim=True), keys - keys.mean(1, keepdim=True)

    @cached_property
    def _products(self) -> tuple[Tensor, Tensor, Tensor]:
        """W_VᵀW_V, W_KᵀW_V and W_KᵀW_K of all pairs of heads, (head width head width)."""
        values, keys = self._read
        pattern = "hmw,gmv->hwgv"
        return torch.einsum(pattern, values, values), torch.einsum(pattern, keys, values), torch.einsum(pattern, keys, keys)

    @cached_property
    def _along(self) -> tuple[Tensor, Tensor]:
        """z_j·W_V and z_j·W_K (head position width), along the direction that the norm before removes."""
        assert self.norm is not None
        values, keys = (self.norm.normalized @ weight for weight in self._read)
        return values, keys

    def _apart(self, target: int) -> Float[Tensor, "head position value_width"]:
        """v_k - o_i."""
        return self.values - self.weights[:, target, None] @ self.values

    def _turned_back(self, vectors: Float[Tensor, "head row head_width"], rows: slice) -> Float[Tensor, "head row head_width"]:
        """The transposed rotary embedding of these positions, or of one for all vectors."""
        if self.rotation is None:
            return vectors
        cosine, sine = (part[rows] for part in self.rotation)
        left, right = (vectors * sine).chunk(2, -1)
        return torch.cat([right, -left], -1) + vectors * cosine


def _times(vectors: Float[Tensor, "head row width"], products: Float[Tensor, "head width other other_width"]) -> Tensor:
    """Vectors of each head times its products with all heads, (head row other other_width)."""
    return (vectors @ products.flatten(2)).unflatten(-1, products.shape[2:])
