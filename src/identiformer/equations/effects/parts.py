"""The parts of a value vector: what is the same whatever the text, what its own token decides, and what other tokens decide."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

PARTS = ("constant", "token", "context")


class ValueParts(NamedTuple):
    """Means of the value vectors of a text over texts in which most of its tokens are replaced: v = m₀ + (m₁ - m₀) + (v - m₁)."""

    replaced: Float[Tensor, "group key width"]
    """m₀: the mean over texts in which the key's own token is replaced, the constant part."""
    kept: Float[Tensor, "group key width"]
    """m₁: the mean over texts in which it is kept; minus m₀ the token's part. What is left of v is the part of the context."""

    def of_value(self, values: Float[Tensor, "key width"], group: int) -> Float[Tensor, "part key width"]:
        """The constant, token and context part of each value of a group; their sum is the value."""
        replaced, kept = self.replaced[group], self.kept[group]
        return torch.stack([replaced, kept - replaced, values - kept])


def part_effects(
    weights: Float[Tensor, "row key"],
    parts: Float[Tensor, "part key width"],
    gradients: Float[Tensor, "draw row width"],
) -> Float[Tensor, "part row key"]:
    """The effect of each part of each value of a head: a_ij·⟨part of v_j, g_i⟩, or, over several draws, its root mean square.

    Examples
    --------
    >>> parts = torch.tensor([[[1.0]], [[2.0]], [[-1.0]]])  # of one value, 2
    >>> part_effects(torch.tensor([[0.5]]), parts, torch.tensor([[[4.0]]])).flatten()
    tensor([ 2.,  4., -2.])
    """
    each = torch.einsum("drw,pkw->dprk", gradients, parts)
    return weights * (each[0] if len(gradients) == 1 else each.square().mean(0).sqrt())


def absolute_shares(effects: Float[Tensor, "part *shape"]) -> Float[Tensor, "part *shape"]:
    """The size of each part's effect as a share of the sum of the sizes: parts that oppose each other do not cancel.

    Examples
    --------
    >>> absolute_shares(torch.tensor([2.0, 4.0, -2.0]))
    tensor([0.2500, 0.5000, 0.2500])
    """
    sizes = effects.abs()
    total = sizes.sum(0)
    return sizes / torch.where(total > 0, total, torch.nan)


def keep_plan(positions: int, draws: int, probability: float, generator: torch.Generator) -> Bool[Tensor, "draw position"]:
    """Which tokens each resampled text keeps: every position in equally many texts, at random which.

    Examples
    --------
    >>> keep_plan(3, 20, 0.1, torch.Generator().manual_seed(0)).sum(0)
    tensor([2, 2, 2])
    """
    count = max(1, round(probability * draws))
    return torch.rand(draws, positions, generator=generator).argsort(0) < count
