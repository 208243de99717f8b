"""Heads of a layer: the group of keys and values that each query head reads, and its slice of the output projection."""

from typing import TypeVar

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor

from identiformer.equations.arrays import moderate_size, same_kind, times_power_of_two
from identiformer.equations.attention.rank import above_noise, numerical_rank, precision_of

Head = TypeVar("Head", int, Tensor)


def group_of(head: Head, heads: int, groups: int) -> Head:
    """The group of keys and values that a query head, or each of several, reads; consecutive heads share one."""
    return head // (heads // groups)


def per_head(grouped: Tensor, heads: int, dim: int = 0) -> Tensor:
    """One entry per query head, from one entry per group along a dimension."""
    return grouped.repeat_interleave(heads // grouped.shape[dim], dim)


@same_kind
def full_row_rank(projection: Float[Tensor, "head width model"]) -> Bool[Tensor, " head"]:
    """Whether each head's slice H of the output projection transmits all of V, so that LN(VH) = LN(V). §3.1, Eq. 2."""
    return numerical_rank(projection.mT) == projection.shape[1]


@same_kind
def projection_root(projection: Float[Tensor, "head width model"]) -> Float64[Tensor, "head width width"]:
    """A square R with RR^T = HH^T: VR has the row products, null space and singular values of T = VH. §3.1, Eq. 2.

    Directions that H discards, up to its own rounding, become zero columns. Where H has full row rank LN(VR) = LN(V).

    Parameters
    ----------
    projection : float array (head width model)
        H, each head's slice of the output projection.

    Returns
    -------
    float64 array (head width width)

    Examples
    --------
    >>> projection_root(torch.tensor([[[3.0, 4.0], [0.0, 0.0]]])).abs()
    tensor([[[5.0000, 0.0000],
             [0.0000, 0.0000]]], dtype=torch.float64)
    """
    moderate, exponent = moderate_size(projection)
    left, sigma, _ = torch.linalg.svd(moderate.double(), full_matrices=False)
    width, model = projection.shape[1:]
    root = left * torch.where(above_noise(sigma, model, width, precision_of(projection)), sigma, 0)[:, None, :]
    return torch.nn.functional.pad(times_power_of_two(root, exponent[:, None, None]), (0, width - root.shape[-1]))
