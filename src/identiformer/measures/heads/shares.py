"""Shares of attention weight that pass the tests of a reading: every page, report, sentence and corpus has them from here."""

from typing import NamedTuple, TypeVar

import numpy as np
from jaxtyping import Float, Float64
from torch import Tensor

from identiformer.equations.certificates.contributions import Cascade

Array = TypeVar("Array", Tensor, np.ndarray)


class Shares(NamedTuple):
    """How much of a head's weight passes one test after another: means over the rows in which it is defined."""

    certified: Float64[Tensor, "*head"]
    contributing: Float64[Tensor, "*head"]
    readable: Float64[Tensor, "*head"]
    """NaN where the own content of a key is unknown."""
    contributing_by_key: Float64[Tensor, "*head key"]
    """The contributing share that is on each key."""


def head_shares(weights: Float[Tensor, "*head query key"], passed: Cascade, own: Float64[Tensor, "*#head key"]) -> Shares:
    """The shares of each head's weight, from how much of each weight passes; `own` is each key's self-contribution.

    Examples
    --------
    >>> import torch
    >>> from identiformer.equations import cascade
    >>> weights, own = torch.tensor([[0.5, 0.5]]).double(), torch.tensor([0.5, 1.0]).double()
    >>> passed = cascade(weights, torch.tensor([[0.4, 0.5]]).double(), torch.tensor([[0.3, 0.0]]).double(), own)
    >>> [round(float(share), 3) for share in head_shares(weights, passed, own)[:3]]
    [0.9, 0.3, 0.15]
    """
    hidden = (weights == 0) & passed.certified.isnan()
    rows = weights.double().sum(-1, keepdim=True)
    certified, by_key = ((stage.masked_fill(hidden, 0) / rows).nanmean(-2) for stage in passed[:2])
    return Shares(certified.sum(-1), by_key.sum(-1), readable_share(by_key, own), by_key)


def readable_share(contributing_by_key: Array, own: Array) -> Array:
    """The share of each head's weight that is readable: what contributes on each key, as far as it is the key's own content."""
    return (contributing_by_key * own).sum(-1)  # pyright: ignore[reportReturnType]
