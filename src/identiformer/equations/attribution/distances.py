"""Contribution by distance: how far away the tokens are that a hidden vector is made of. §5.3, Fig. 4."""

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from identiformer.equations.arrays import same_kind

NEIGHBOURS = {"1st": (1, 1), "2nd": (2, 2), "3rd": (3, 3), "4th-5th": (4, 5), "6th-10th": (6, 10), "11th on": (11, None)}
"""The paper's groups of neighbors, by their distance on either side."""


@same_kind
def contribution_by_distance(
    shares: Float[Tensor, "*layer target source"], targets: Int64[Tensor, " target"]
) -> Float[Tensor, "*layer distance"]:
    """Contribution by signed distance, source less target, from -(n-1) to n-1: summed over targets, as shares of all others'.

    A token's own contribution, at distance 0, is left out: zero. Fig. 4b.
    """
    positions = shares.shape[-1]
    offset = torch.arange(positions, device=shares.device) - targets[:, None] + positions - 1
    summed = shares.new_zeros(*shares.shape[:-2], 2 * positions - 1)
    summed.index_add_(-1, offset.flatten(), shares.flatten(-2))
    summed[..., positions - 1] = 0
    return summed / summed.sum(-1, keepdim=True)


@same_kind
def contribution_by_neighbors(
    shares: Float[Tensor, "*layer target source"], targets: Int64[Tensor, " target"]
) -> Float[Tensor, "*layer target group"]:
    """The mean contribution of each group of neighbors that a token has; NaN where it has none of them. Fig. 4a, C.2."""
    distance = (torch.arange(shares.shape[-1], device=shares.device) - targets[:, None]).abs()
    groups = []
    for nearest, farthest in NEIGHBOURS.values():
        member = (distance >= nearest) & (distance <= (shares.shape[-1] if farthest is None else farthest))
        groups.append((shares * member).sum(-1) / member.sum(-1))
    return torch.stack(groups, -1)
