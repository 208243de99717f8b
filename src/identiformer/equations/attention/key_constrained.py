"""Another question than the paper's: could *these keys* have made other attention with the same output?

A softmax over q·k_j reaches only a d_k-dimensional set of rows, whatever the length of the text. A row is identifiable
within that set, locally, where no direction of the query changes attention and leaves the output. Bhardwaj et al., 2021.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

from identiformer.equations.arrays import same_kind
from identiformer.equations.attention.rank import noise_floor_squared
from identiformer.equations.scaling import moderate_size, times_power_of_two


class KeyConstrained(NamedTuple):
    """What each row of a head shows of the query that made it."""

    smallest: Float64[Tensor, " query"]
    """The smallest singular value of ∂o/∂q over the directions of q that change attention at all."""
    condition: Float64[Tensor, " query"]
    """The largest over the smallest: how much rounding is amplified when q is read back from o; NaN where nothing is to read."""
    dimension: Int64[Tensor, " query"]
    """How many directions of q change attention."""
    identifiable: Bool[Tensor, " query"]


@same_kind
def key_constrained(
    weights: Float[Tensor, "query key"], keys: Float[Tensor, "key key_width"], values: Float[Tensor, "key width"], scaling: float
) -> KeyConstrained:
    """Whether each row is locally the only one that these keys can generate with its output: rank ∂o/∂q = rank ∂a/∂q.

    ∂a/∂q = (diag a - aa^T)·K·scaling and ∂o/∂q = V^T·∂a/∂q. It concerns small changes of the query; other queries far away
    may still give the same output. The theorem of the paper does not restrict attention to what keys can generate.
    """
    a = weights.double()
    (k, key_exponent), (v, value_exponent) = moderate_size(keys.double()), moderate_size(values.double())
    moved = a[..., None] * (k - (a @ k)[:, None]) * scaling
    left, sigma, _ = torch.linalg.svd(moved, full_matrices=False)
    dimension = _rank(sigma, weights.shape[1], keys.shape[1], weights.dtype)
    kept = torch.arange(sigma.shape[-1], device=sigma.device) < dimension[:, None]
    output = torch.einsum("kw,qkr->qwr", v, left * (sigma * kept)[:, None])
    seen = torch.linalg.svdvals(output)
    rank = _rank(seen, values.shape[1], keys.shape[1], weights.dtype)
    padded = torch.nn.functional.pad(seen, (0, max(int(dimension.max()) - seen.shape[-1], 0)))
    smallest = padded.gather(-1, (dimension - 1).clamp(min=0)[:, None])[:, 0] * (dimension > 0)
    condition = seen[:, 0] / smallest
    return KeyConstrained(times_power_of_two(smallest, key_exponent + value_exponent), condition, dimension, rank == dimension)


def _rank(sigma: Float64[Tensor, "query side"], rows: int, columns: int, precision: torch.dtype) -> Int64[Tensor, " query"]:
    squared = sigma.square()
    return (squared > noise_floor_squared(squared[:, 0], squared.sum(-1), rows, columns, precision)[:, None]).sum(-1)
