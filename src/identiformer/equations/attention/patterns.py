"""What the rows of an attention map point at: the patterns by which heads are sorted and found."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from identiformer.equations.arrays import same_kind
from identiformer.equations.attention.visibility import Visibility
from identiformer.errors import InputError

Maps = Float[Tensor, "head query key"]
PerHead = Float[Tensor, " head"]


class PatternShares(NamedTuple):
    """The share of each head's weight that follows each pattern; NaN where no row can follow it."""

    peak: PerHead
    """On the one key s that receives most over all rows (Xiao et al. 2023); an attention sink if it does not contribute."""
    previous: PerHead
    """On j = i - 1."""
    next: PerHead
    """On j = i + 1."""
    self: PerHead
    """On j = i."""
    induction: PerHead
    """On keys right after an earlier occurrence of the query's token (Olsson et al. 2022)."""
    separator: PerHead
    """On separators other than s (Clark et al. 2019)."""
    broad: PerHead
    """Shared with uniform attention, Σ_j min(a_ij, s_i/n_i) with s_i = Σ_j a_ij."""


PATTERNS = PatternShares._fields


@same_kind
def pattern_shares(
    weights: Maps,
    visible: Visibility,
    *,
    separators: Bool[Tensor, " key"],
    ids: Int64[Tensor, " key"] | None = None,
) -> PatternShares:
    """The share of weight that follows each pattern: the mean of Σ_{j∈C_i} a_ij over the rows i that can follow it.

    C_i are the keys of the pattern in row i. A row can follow a pattern if it sees at least two keys and, for offsets and
    induction, a key of C_i. Patterns may overlap, so shares need not sum to one.

    Parameters
    ----------
    weights : float array (head query key)
        A.
    visible : Visibility
        The n_i keys that each query sees.
    separators : bool array (key)
        Which keys are special tokens or punctuation.
    ids : int array (key), optional
        The tokens, for induction; separators do not count as repeated tokens. Without them queries are taken for other tokens
        than keys, as in cross attention, and the patterns of offsets and induction are undefined.

    Returns
    -------
    PatternShares
        One array (head) per pattern.

    Examples
    --------
    >>> weights, ids = torch.tensor([[[1.0, 0.0, 0.0], [0.9, 0.1, 0.0], [0.0, 0.7, 0.3]]]), torch.tensor([7, 8, 9])
    >>> shares = pattern_shares(weights, Visibility.causal(3), separators=ids == 0, ids=ids)
    >>> shares.previous, shares.self, shares.next
    (tensor([0.8000]), tensor([0.2000]), tensor([nan]))
    """
    visible, separators = visible.to(weights.device), separators.to(weights.device)
    mask, rows = visible.dense(), visible.counts > 1
    queries, keys = mask.shape
    nowhere = torch.zeros_like(mask)
    if ids is not None and queries != keys:
        raise InputError(f"expected ids where queries and keys are the same tokens, got {queries} queries and {keys} keys.")
    at = {offset: nowhere if ids is None else _diagonal(keys, offset).to(mask.device) & mask for offset in (-1, 0, 1)}
    repeated = nowhere if ids is None else _after_repeats(ids.to(mask.device), separators) & mask

    def share(cells: Tensor, able: Tensor) -> Tensor:
        able = able & rows
        if not bool(able.any()):
            return torch.full_like(weights[:, 0, 0], torch.nan)
        return torch.where(cells, weights, 0).sum(-1)[:, able].mean(-1)

    peaks = _largest(weights[:, rows].sum(-2))[:, None]
    uniform = weights.sum(-1, keepdim=True) / visible.counts[:, None]
    return PatternShares(
        peak=share(peaks, rows),
        previous=share(at[-1], at[-1].any(-1)),
        next=share(at[1], at[1].any(-1)),
        self=share(at[0], at[0].any(-1)),
        induction=share(repeated, repeated.any(-1)),
        separator=share(separators & ~peaks, rows),
        broad=torch.minimum(weights, uniform).sum(-1)[:, rows].mean(-1) if bool(rows.any()) else share(nowhere, rows),
    )


def _largest(received: Float[Tensor, "head key"]) -> Bool[Tensor, "head key"]:
    """The key with the largest entry, the first of equal ones."""
    return torch.arange(received.shape[-1], device=received.device) == received.argmax(-1, keepdim=True)


def _diagonal(positions: int, offset: int) -> Bool[Tensor, "query key"]:
    """The cells with j = i + offset."""
    return torch.diag(torch.ones(positions - abs(offset), dtype=torch.bool), offset)


def _after_repeats(ids: Int64[Tensor, " key"], separators: Bool[Tensor, " key"]) -> Bool[Tensor, "query key"]:
    """The cells (i, j) with t_{j-1} = t_i and j - 1 < i."""
    repeats = ((ids[:, None] == ids) & ~separators[:, None]).tril(-1)
    return torch.nn.functional.pad(repeats, (1, 0))[:, :-1]
