"""Numbers that say how much of an attention map the output can see: null mass and correlation."""

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from identiformer.equations.arrays import same_kind
from identiformer.equations.visibility import Visibility

QUERIES_AT_ONCE = 256


@same_kind
def null_mass(
    raw_squared_norm: Float[Tensor, "*batch query"], effective_squared_norm: Float[Tensor, "*batch query"]
) -> Float64[Tensor, "*batch query"]:
    """The share of a row's squared norm that the output cannot see: ν = 1 - ‖a⊥‖²/‖a‖² = ‖a∥‖²/‖a‖².

    >>> null_mass(torch.tensor([2.0]), torch.tensor([0.5]))
    tensor([0.7500], dtype=torch.float64)
    """
    return (1 - effective_squared_norm.double() / raw_squared_norm.double()).clamp(0, 1)


@same_kind
def correlation(
    raw_squared_norm: Float[Tensor, "head query"],
    effective_squared_norm: Float[Tensor, "head query"],
    raw_sum: Float[Tensor, "head query"],
    effective_sum: Float[Tensor, "head query"],
    nullity: Int64[Tensor, "head query"],
    visible_keys: Int64[Tensor, " query"],
) -> Float64[Tensor, " head"]:
    """Pearson's correlation of A with A⊥ over the visible entries of rows that have a null space. §3.2, Fig. 1a.

    Sums over rows suffice, because ⟨A, A⊥⟩ = ‖A⊥‖². A head without a null space has A⊥ = A, so 1; one whose attention
    does not vary has no correlation, so NaN.
    """
    rows = (nullity > 0).double()
    entries = (rows * visible_keys).sum(-1)
    both = (effective_squared_norm.double() * rows).sum(-1)
    raw_total, effective_total = (raw_sum.double() * rows).sum(-1), (effective_sum.double() * rows).sum(-1)
    covariance = both - raw_total * effective_total / entries
    raw_variance = (raw_squared_norm.double() * rows).sum(-1) - raw_total**2 / entries
    effective_variance = both - effective_total**2 / entries
    # What is left of a difference of float32 sums is noise.
    constant = (raw_variance < 1e-6 * raw_total**2 / entries) | (effective_variance < 1e-6 * both)
    value = (covariance / (raw_variance.clamp(min=0) * effective_variance.clamp(min=0)).sqrt()).clamp(-1, 1)
    return torch.where(entries == 0, 1.0, torch.where(constant, torch.nan, value))


def attention_squared_norms(
    queries: Float[Tensor, "head query width"],
    keys: Float[Tensor, "group key width"],
    scaling: float,
    visible: Visibility,
) -> Float64[Tensor, "head query"]:
    """‖a‖² of every row of softmax(QK^T·scaling), a few rows at a time."""
    heads, rows, _ = queries.shape
    repeat = heads // len(keys)
    answer = torch.empty(heads, rows, dtype=torch.float64, device=queries.device)
    for chosen in torch.arange(rows, device=queries.device).split(QUERIES_AT_ONCE):
        part = visible.rows(chosen)
        low, high = int(part.start.min()), int(part.stop.max())
        hidden = ~part.dense()[:, low:high]
        partly = hidden.any(0).nonzero()[:, 0]
        edge = slice(int(partly[0]), int(partly[-1]) + 1) if len(partly) else slice(0)  # only these columns need the mask
        hidden = hidden[:, edge]
        for head in range(heads):
            scores = (queries[head, chosen] * scaling) @ keys[head // repeat, low:high].mT
            scores[:, edge].masked_fill_(hidden, -torch.inf)
            answer[head, chosen] = torch.linalg.vector_norm(scores.softmax(-1), dim=-1).double().square()
    return answer
