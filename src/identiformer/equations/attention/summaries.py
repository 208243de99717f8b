"""Numbers that say how much of an attention map the output can see: null mass and correlation."""

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from identiformer.equations.arrays import floating, same_kind
from identiformer.equations.attention.visibility import Visibility

QUERIES_AT_ONCE = 128


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


@floating
def attention_squared_norms(
    queries: Float[Tensor, "head query width"],
    keys: Float[Tensor, "group key width"],
    scaling: float,
    visible: Visibility,
) -> Float64[Tensor, "head query"]:
    """‖a‖² of every row of softmax(QK^T·scaling), a few rows at a time."""
    heads, rows, _ = queries.shape
    grouped, keys = queries.unflatten(0, (len(keys), -1)), keys.contiguous()
    repeat = grouped.shape[1]
    answer = torch.empty(*grouped.shape[:3], dtype=torch.float64, device=queries.device)
    # Two buffers serve every step: arrays of ever new sizes would scatter over the memory.
    buffers = queries.new_empty(2, repeat * QUERIES_AT_ONCE * visible.keys)
    for first in range(0, rows, QUERIES_AT_ONCE):
        chosen = slice(first, min(first + QUERIES_AT_ONCE, rows))
        part = visible.rows(torch.arange(chosen.start, chosen.stop))
        low, high = int(part.start.min()), int(part.stop.max())
        # Of growing prefixes only the last columns need the mask.
        nested = part.mask is None and int(part.start.max()) == low
        edge = slice(int(part.stop.min()) - low if nested else 0, high - low)
        hidden = ~part.columns(torch.arange(low + edge.start, high))
        shape = (repeat * part.queries, high - low)
        scores, weights = (buffer[: shape[0] * shape[1]].view(shape) for buffer in buffers)
        for group, own in enumerate(grouped[:, :, chosen]):
            torch.mm((own * scaling).flatten(0, 1), keys[group, low:high].mT, out=scores)
            scores.unflatten(0, (repeat, -1))[..., edge].masked_fill_(hidden, -torch.inf)
            torch.softmax(scores, -1, out=weights)
            norms = torch.linalg.vector_norm(weights, dim=-1).double().square()
            answer[group, :, chosen] = norms.unflatten(0, (repeat, -1))
    return answer.view(heads, rows)
