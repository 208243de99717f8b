"""How high the scores of a map rank what is known to matter, with ties treated evenly."""

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor

from identiformer.equations.arrays import same_kind


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
