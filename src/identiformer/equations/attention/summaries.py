"""Numbers that summarize how far the output determines an attention map: null mass, correlation, leverage."""

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from identiformer.equations.arrays import floating, moderate_size, require_comparable, same_kind
from identiformer.equations.attention.rank import precision_of, row_space
from identiformer.equations.attention.row_solver import solve_rows
from identiformer.equations.attention.visibility import Visibility

QUERIES_AT_ONCE = 128


@same_kind
def null_mass(
    raw_squared_norm: Float[Tensor, "*batch query"], effective_squared_norm: Float[Tensor, "*batch query"]
) -> Float64[Tensor, "*batch query"]:
    """The share of a row's squared norm in its null component: ν = ‖a∥‖²/‖a‖² = 1 - ‖a⊥‖²/‖a‖². §3.2.

    Parameters
    ----------
    raw_squared_norm, effective_squared_norm : float arrays (... query)
        ‖a‖² and ‖a⊥‖².

    Returns
    -------
    float64 array (... query), from 0 to 1

    Examples
    --------
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
    """Pearson correlation of A with A⊥ over the visible entries of rows that have a null space. §3.2, Fig. 1a.

    Sums over rows suffice, because ⟨A, A⊥⟩ = ‖A⊥‖². A head without a null space has A⊥ = A, so 1; attention that does not vary
    has no correlation, so NaN.
    """
    rows = (nullity > 0).double()
    entries = (rows * visible_keys).sum(-1)
    both = (effective_squared_norm.double() * rows).sum(-1)
    raw_total, effective_total = (raw_sum.double() * rows).sum(-1), (effective_sum.double() * rows).sum(-1)
    covariance = both - raw_total * effective_total / entries
    raw_variance = (raw_squared_norm.double() * rows).sum(-1) - raw_total**2 / entries
    effective_variance = both - effective_total**2 / entries
    # The remainder of a difference of float32 sums is noise.
    constant = (raw_variance < 1e-6 * raw_total**2 / entries) | (effective_variance < 1e-6 * both)
    value = (covariance / (raw_variance.clamp(min=0) * effective_variance.clamp(min=0)).sqrt()).clamp(-1, 1)
    return torch.where(entries == 0, 1.0, torch.where(constant, torch.nan, value))


@same_kind
def leverage(
    values: Float[Tensor, "group key width"], visible: Visibility | None = None, precision: torch.dtype | None = None
) -> Float64[Tensor, "group key"]:
    """The effective share of a unit weight on key j, ℓ_j = v_j G^+ v_j, in the row of the last query that sees j. §3.2.

    The leverages of the keys of a row sum to its rank. A key with a small value vector has little leverage: its column of
    A⊥ is near 0 whatever its weight, since |a⊥_ij| ≤ ‖a⊥_i‖·√ℓ_j.

    Parameters
    ----------
    values : float array (group key width)
        V with its bias.
    visible : Visibility, optional
        The keys that each query sees; all by default.
    precision : torch.dtype, optional
        The dtype in which V was computed, if it was converted since (from float32, V itself shows it).

    Returns
    -------
    float64 array (group key), from 0 to 1
        0 for keys that no query sees.

    Examples
    --------
    >>> leverage(torch.tensor([[[1.0], [1.0], [0.0]]]))
    tensor([[0.5000, 0.5000, 0.0000]], dtype=torch.float64)
    """
    precision = precision or precision_of(values)
    doubled = moderate_size(values)[0].double()
    if visible is None or visible.shared:
        space = row_space(doubled, precision)
        basis = space.whitening.mT @ doubled.mT
        if space.left is not None:
            basis[space.doubtful] = space.left.mT
        return basis.square().sum(-2)
    require_comparable(doubled)
    visible = visible.to(values.device)
    viewer = visible.last_viewer()
    keys = (viewer >= 0).nonzero()[:, 0]
    rows = visible.rows(viewer[keys])
    answer = doubled.new_zeros(doubled.shape[:2])
    for group, vectors in enumerate(doubled):
        # v_j takes the place of the output, in the row of its last viewer: y = G^+ v_j.
        solution = solve_rows(vectors[keys][:, None], vectors, rows, precision)
        answer[group, keys] = (solution.y[:, 0] * vectors[keys]).sum(-1)
        answer[group, keys[solution.direct]] = solution.weights[:, 0].gather(-1, keys[solution.direct, None])[:, 0]
    return answer.clamp(0, 1)


@floating
def attention_squared_norms(
    queries: Float[Tensor, "head query width"],
    keys: Float[Tensor, "group key width"],
    scaling: float,
    visible: Visibility,
) -> Float64[Tensor, "head query"]:
    """‖a‖² of every row of A = softmax(QK^T·scaling), a few rows at a time."""
    heads, rows, _ = queries.shape
    grouped, keys = queries.unflatten(0, (len(keys), -1)), keys.contiguous()
    visible, repeat = visible.to(queries.device), grouped.shape[1]
    answer = torch.empty(*grouped.shape[:3], dtype=torch.float64, device=queries.device)
    # Two buffers serve every step: arrays of changing sizes would fragment memory.
    buffers = queries.new_empty(2, repeat * QUERIES_AT_ONCE * visible.keys)
    for first in range(0, rows, QUERIES_AT_ONCE):
        chosen = slice(first, min(first + QUERIES_AT_ONCE, rows))
        part = visible.rows(torch.arange(chosen.start, chosen.stop, device=queries.device))
        low, high = int(part.start.min()), int(part.stop.max())
        # Of growing prefixes only the last columns need the mask.
        nested = part.mask is None and int(part.start.max()) == low
        edge = slice(int(part.stop.min()) - low if nested else 0, high - low)
        hidden = ~part.columns(torch.arange(low + edge.start, high, device=queries.device))
        shape = (repeat * part.queries, high - low)
        scores, weights = (buffer[: shape[0] * shape[1]].view(shape) for buffer in buffers)
        for group, group_queries in enumerate(grouped[:, :, chosen]):
            torch.mm((group_queries * scaling).flatten(0, 1), keys[group, low:high].mT, out=scores)
            scores.unflatten(0, (repeat, -1))[..., edge].masked_fill_(hidden, -torch.inf)
            torch.softmax(scores, -1, out=weights)
            norms = torch.linalg.vector_norm(weights, dim=-1).double().square()
            answer[group, :, chosen] = norms.unflatten(0, (repeat, -1))
    return answer.view(heads, rows)
