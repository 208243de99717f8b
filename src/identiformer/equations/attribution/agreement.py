"""Agreement of two maps over the same tokens, of a map with what is known to matter, and of two hidden vectors."""

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor

from identiformer.equations.arrays import moderate_size, same_kind
from identiformer.equations.identifiability.recovery import unit

ROUNDING = 1e-14
"""Rows that vary by a smaller share of their size are constant."""


@same_kind
def row_correlation(
    first: Float[Tensor, "*batch row key"], second: Float[Tensor, "*batch row key"], visible: Bool[Tensor, "*#batch row key"]
) -> Float64[Tensor, "*batch row"]:
    """Pearson correlation of each row of two maps over its visible keys; NaN where one of them does not vary.

    >>> row_correlation(torch.tensor([[1.0, 2.0, 9.0]]), torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([[True, True, False]]))
    tensor([-1.0000], dtype=torch.float64)
    """
    count = visible.sum(-1, keepdim=True)
    maps = [moderate_size(each)[0].double() for each in (first, second)]
    centered = [torch.where(visible, each - (each * visible).sum(-1, keepdim=True) / count, 0.0) for each in maps]
    sizes = [torch.where(visible, each, 0.0).norm(dim=-1) for each in maps]
    lengths = [each.norm(dim=-1) for each in centered]
    # What is left of a constant row is the rounding error of its mean.
    varies = (lengths[0] > ROUNDING * sizes[0]) & (lengths[1] > ROUNDING * sizes[1])
    return torch.where(varies, (centered[0] * centered[1]).sum(-1) / (lengths[0] * lengths[1]), torch.nan)


@same_kind
def row_rank_correlation(
    first: Float[Tensor, "*batch row key"], second: Float[Tensor, "*batch row key"], visible: Bool[Tensor, "*#batch row key"]
) -> Float64[Tensor, "*batch row"]:
    """Spearman's correlation of each row of two maps over its visible keys; NaN where one of them does not vary.

    >>> first, second = torch.tensor([[1.0, 2.0, 3.0, 0.0]]), torch.tensor([[1.0, 2.0, 90.0, 5.0]])
    >>> row_rank_correlation(first, second, torch.tensor([[True, True, True, False]]))
    tensor([1.0000], dtype=torch.float64)
    """
    return row_correlation(row_ranks(first, visible), row_ranks(second, visible), visible)


@same_kind
def row_ranks(
    scores: Float[Tensor, "*batch row key"], visible: Bool[Tensor, "*#batch row key"]
) -> Float64[Tensor, "*batch row key"]:
    """The rank of each visible score in its row, where equal scores share their mean rank; NaN in rows with a NaN.

    >>> row_ranks(torch.tensor([[0.5, 0.1, 0.5, 9.0]]), torch.tensor([[True, True, True, False]]))
    tensor([[2.0000, 0.5000, 2.0000, 3.5000]], dtype=torch.float64)
    """
    # Invisible keys come last, so they do not change the ranks of visible ones.
    known = torch.where(visible, scores.double(), torch.inf).contiguous()
    ordered = known.sort(-1).values
    ranks = torch.searchsorted(ordered, known) + torch.searchsorted(ordered, known, right=True)
    return torch.where(known.isnan().any(-1, keepdim=True), torch.nan, ranks.double() / 2)


@same_kind
def cosine_distance(
    first: Float[Tensor, "*#batch row width"], second: Float[Tensor, "*#batch row width"]
) -> Float64[Tensor, "*batch row"]:
    """1 - cos(x, y) of each pair of rows: 0 where they point the same way, 2 where they point opposite ways.

    Computed as ½‖x̂ - ŷ‖², because 1 - cos loses half of its digits where the two are nearly equal.

    >>> cosine_distance(torch.tensor([[2.0, 0.0], [1.0, 0.0]]), torch.tensor([[5.0, 0.0], [0.0, 1.0]]))
    tensor([0., 1.], dtype=torch.float64)
    """
    # Each row is scaled by itself, because rows may differ in magnitude.
    ours, theirs = (unit(moderate_size(each.double()[..., None, :])[0][..., 0, :]) for each in (first, second))
    return (ours - theirs).square().sum(-1) / 2


@same_kind
def average_precision(
    scores: Float[Tensor, "*batch key"], relevant: Bool[Tensor, "*#batch key"], candidate: Bool[Tensor, "*#batch key"]
) -> Float64[Tensor, "*batch"]:
    """Mean over relevant keys of the precision at their rank, over candidate keys; NaN without a relevant key.

    Precision at rank k is the share of relevant keys among the first k. Equal scores count as the mean over all their orders, so
    that scores which are all equal have what random scores have on average (McSherry and Najork 2008): a key is preceded by n
    greater scores, R of them relevant, and shares its score with t keys, itself included, of which r are relevant. At the k-th of
    these, k = 1…t, its precision is (R + 1 + (k - 1)(r - 1)/(t - 1))/(n + k) on average.

    >>> average_precision(torch.tensor([3.0, 2.0, 1.0, 9.0]), torch.tensor([0, 1, 0, 0]) > 0, torch.tensor([1, 1, 1, 0]) > 0)
    tensor(0.5000, dtype=torch.float64)
    """
    wanted = relevant & candidate
    greater, equal = (
        compare(scores[..., None, :], scores[..., :, None]) & candidate[..., None, :] for compare in (torch.gt, torch.eq)
    )
    before, tied = greater.sum(-1, keepdim=True), equal.sum(-1, keepdim=True)
    relevant_before, relevant_tied = ((each & wanted[..., None, :]).sum(-1, keepdim=True) for each in (greater, equal))
    order = torch.arange(1, scores.shape[-1] + 1, dtype=torch.float64, device=scores.device)
    others = (order - 1) * (relevant_tied - 1) / (tied - 1).clamp(min=1)
    precision = (order <= tied) * (relevant_before + 1 + others) / (before + order)
    return torch.where(wanted, precision.sum(-1) / tied[..., 0], 0.0).sum(-1) / wanted.sum(-1)


@same_kind
def top_share(
    scores: Float[Tensor, "*batch key"], relevant: Bool[Tensor, "*#batch key"], candidate: Bool[Tensor, "*#batch key"]
) -> Float64[Tensor, "*batch"]:
    """Share of the r relevant keys among the r candidate keys with the largest scores; NaN without a relevant key.

    As many keys are chosen as are relevant, so it is precision, recall and F1 in one. Of equal scores an equal share is chosen.

    >>> top_share(torch.tensor([3.0, 2.0, 2.0]), torch.tensor([True, True, False]), torch.tensor([True, True, True]))
    tensor(0.7500, dtype=torch.float64)
    """
    wanted = relevant & candidate
    count = wanted.sum(-1, keepdim=True).double()
    greater = ((scores[..., None, :] > scores[..., :, None]) & candidate[..., None, :]).sum(-1)
    equal = ((scores[..., None, :] == scores[..., :, None]) & candidate[..., None, :]).sum(-1)
    chosen = ((count - greater) / equal.clamp(min=1)).clamp(0, 1)
    return torch.where(wanted, chosen, 0.0).sum(-1) / count[..., 0]
