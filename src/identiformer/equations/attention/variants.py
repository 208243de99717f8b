"""Variants of effective attention: with the sum kept, on the simplex, or with a soft threshold (the open question of §7).

All have the head's output (the soft one nearly). Effective attention has the smallest norm of all; these have the smallest
norm among rows with the sum of attention and among probabilities, and the largest entropy among probabilities.
"""

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from identiformer.equations.arrays import moderate_size, same_kind
from identiformer.equations.attention.effective import (
    Values,
    Visible,
    Weights,
    accepts_one_head,
    check_rows,
    check_shapes,
    effective_attention,
)
from identiformer.equations.attention.heads import group_of
from identiformer.equations.attention.rank import left_null_space, precision_of, row_space
from identiformer.equations.attention.visibility import Visibility

NEWTON_STEPS = 200
RESIDUAL = 1e-8  # of the output, in coordinates where a row has length about one


@same_kind
@accepts_one_head
def sum_preserving_attention(
    weights: Weights, values: Values, visible: Visible = None, *, sink: bool = False, precision: torch.dtype | None = None
) -> Weights:
    """The row of smallest norm with the same output and the same sum: a·P_[V,1], the projection on the columns of [V, 1]. §7.

    Rows may be negative. The value bias does not matter. With a sink the sum is free, and this is A⊥ of the row with the
    sink as a key whose value is 0.

    Parameters
    ----------
    weights, values, visible, sink, precision
        As in `effective_attention`.

    Returns
    -------
    float array, shaped like weights

    Examples
    --------
    >>> sum_preserving_attention(torch.tensor([[0.5, 0.3, 0.2]]), torch.tensor([[1.0], [1.0], [0.0]]))
    tensor([[0.4000, 0.4000, 0.2000]])
    """
    visibility = check_shapes(weights, values, visible)
    precision = precision or precision_of(values)
    working = torch.promote_types(values.dtype, torch.float32)
    augmented = with_sum(moderate_size(values.to(working))[0])
    if sink:
        sink_key = torch.cat([torch.zeros_like(values[:, :1]), augmented[:, :1, -1:]], -1)
        augmented = torch.cat([sink_key, augmented], 1)
        with_sink = torch.cat([1 - weights.sum(-1, keepdim=True), weights], -1)
        return effective_attention(with_sink, augmented, visibility.with_leading_keys(1), precision=precision)[..., 1:]
    return effective_attention(weights, augmented, visibility, precision=precision)


def with_sum(values: Float[Tensor, "group key width"]) -> Float[Tensor, "group key extended_width"]:
    """[V, 1], with the ones scaled to the size of the values; in its column space rows keep their sum too."""
    scale = values.double().square().mean((-1, -2), keepdim=True).sqrt().to(values)  # squares of float32 may overflow
    return torch.cat([values, torch.where(scale > 0, scale, 1).expand(*values.shape[:2], 1)], -1)


@same_kind
@accepts_one_head
def soft_attention(
    weights: Weights, values: Values, visible: Visible = None, *, epsilon: float = 1e-2, sink: bool = False
) -> Weights:
    """A⊥ with a soft rank threshold: A_λ = O(G + λI)^{-1}V^T with λ = (ε·σ₁)². §7.

    The filter σ²/(σ² + λ) is continuous in V, where the rank in A⊥ jumps.

    Parameters
    ----------
    weights, values, visible, sink
        As in `effective_attention`; pass `values @ projection_root(H)` for a threshold in the metric of the model's output.
    epsilon : float
        ε, the threshold as a share of the largest singular value σ₁.

    Returns
    -------
    float array, shaped like weights

    Examples
    --------
    >>> soft_attention(torch.tensor([[0.5, 0.3, 0.2]]), torch.tensor([[1.0], [1.0], [0.0]]))
    tensor([[0.4000, 0.4000, 0.0000]])
    """
    visibility = check_shapes(weights, values, visible)
    check_rows(weights, visibility, sink)
    groups, _, width = values.shape
    doubled = moderate_size(values)[0].double()
    top = torch.linalg.matrix_norm(doubled, ord=2)
    # (G + λI)^{-1} is the inverse Gram matrix of V after the rows √λ·I: keys of weight 0 that every query sees.
    ridge = (epsilon * top)[:, None, None] * torch.eye(width, dtype=doubled.dtype, device=values.device).expand(groups, -1, -1)
    padded = torch.nn.functional.pad(weights, (width, 0))
    # The ridge is far above the rounding of float32, which is all that is asked of a soft threshold.
    options = {"sink": sink, "precision": torch.float32}
    return effective_attention(padded, torch.cat([ridge, doubled], 1), visibility.with_leading_keys(width), **options)[
        ..., width:
    ]


@same_kind
@accepts_one_head
def minimum_norm_attention(
    weights: Weights, values: Values, visible: Visible = None, *, sink: bool = False, precision: torch.dtype | None = None
) -> Weights:
    """The probabilities of smallest norm with the same output: min ‖a'‖² with a' ≥ 0, a'V = aV, Σa' = Σa. §7.

    The row is a₀ + uN^T with N an orthonormal basis of LN([V, 1]) over the keys that it sees and a₀ its sum-preserving
    part: a least-distance problem in u, solved exactly by non-negative least squares (Lawson and Hanson, ch. 23).

    Parameters
    ----------
    weights, values, visible, sink, precision
        As in `effective_attention`.

    Returns
    -------
    float array, shaped like weights

    Examples
    --------
    >>> minimum_norm_attention(torch.tensor([[0.5, 0.3, 0.2]]), torch.tensor([[1.0], [1.0], [0.0]]))
    tensor([[0.4000, 0.4000, 0.2000]])
    """
    return _on_simplex(_shortest, weights, values, visible, sink, precision)


@same_kind
@accepts_one_head
def maximum_entropy_attention(
    weights: Weights, values: Values, visible: Visible = None, *, sink: bool = False, precision: torch.dtype | None = None
) -> Weights:
    """The probabilities of largest entropy with the same output: a' ≥ 0, a'V = aV, Σa' = Σa; a'_j ∝ exp(λ·v_j). §7.

    The dual is min log Σ exp(λ·v_j) - λ·o, smooth and convex.

    Parameters
    ----------
    weights, values, visible, sink, precision
        As in `effective_attention`.

    Returns
    -------
    float array, shaped like weights
        NaN in rows that do not reach the output to 1e-8, as where it is on the boundary of the reachable outputs.

    Examples
    --------
    >>> maximum_entropy_attention(torch.tensor([[0.5, 0.3, 0.2]]), torch.tensor([[1.0], [1.0], [0.0]]))
    tensor([[0.4000, 0.4000, 0.2000]])
    """
    return _on_simplex(_most_even, weights, values, visible, sink, precision)


RowsOnSimplex = Callable[[Tensor, Tensor, Visibility, torch.dtype], Tensor]


def _on_simplex(
    solve: RowsOnSimplex, weights: Weights, values: Values, visible: Visible, sink: bool, precision: torch.dtype | None
) -> Weights:
    visibility = check_shapes(weights, values, visible)
    check_rows(weights, visibility, sink)
    raw, doubled = weights.double(), moderate_size(values)[0].double()
    if sink:  # Σa' ≤ 1 is Σa' = 1 with one more key, whose value is 0
        raw = torch.cat([1 - raw.sum(-1, keepdim=True), raw], -1)
        doubled = torch.nn.functional.pad(doubled, (0, 0, 1, 0))
        visibility = visibility.with_leading_keys(1)
    augmented = with_sum(doubled)
    groups = [group_of(head, len(weights), len(values)) for head in range(len(weights))]
    rows = [
        solve(augmented[group], row, visibility, precision or precision_of(values))
        for group, row in zip(groups, raw, strict=True)
    ]
    return torch.stack(rows)[..., int(sink) :].to(weights.dtype)


def _shortest(
    augmented: Float64[Tensor, "key width"], raw: Float64[Tensor, "query key"], visible: Visibility, precision: torch.dtype
) -> Float64[Tensor, "query key"]:
    from scipy.optimize import nnls  # slow to import, and needed by few

    answer = torch.zeros_like(raw)
    for queries, keys in visible.patterns():
        null = left_null_space(augmented[keys], precision)
        for query in queries:
            row = raw[query, keys]
            part = row - null @ (null.mT @ row)
            constraints = torch.cat([null, -part[:, None]], -1).mT.cpu().numpy()
            target = np.eye(1, len(constraints), len(constraints) - 1)[0]
            multipliers, _ = nnls(constraints, target)
            *direction, length = constraints @ multipliers - target
            move = torch.tensor(direction, dtype=raw.dtype, device=raw.device) / -length if len(direction) else null[0]
            answer[query, keys] = (part + null @ move).clamp(min=0)
    return answer


def _most_even(
    augmented: Float64[Tensor, "key width"], raw: Float64[Tensor, "query key"], visible: Visibility, precision: torch.dtype
) -> Float64[Tensor, "query key"]:
    """Damped Newton on the dual of all rows at once; the ridge that makes the Hessian definite vanishes with the gradient."""
    basis = augmented @ row_space(augmented, precision).whitening
    hidden = ~visible.dense()
    target, total = raw @ basis, raw.sum(-1)
    y = torch.zeros_like(target)
    for _ in range(NEWTON_STEPS):
        scores = (y @ basis.mT).masked_fill_(hidden, -torch.inf)
        even = total[:, None] * scores.softmax(-1)
        gradient = even @ basis - target
        unsolved = (gradient.norm(dim=-1) > RESIDUAL / 10).nonzero()[:, 0]
        if not len(unsolved):
            break
        step = torch.zeros_like(y)
        for rows in unsolved.split(64):
            step[rows] = _newton_step(basis, gradient[rows], even[rows])

        def objective(at: Tensor) -> Tensor:
            return total * (at @ basis.mT).masked_fill_(hidden, -torch.inf).logsumexp(-1) - (at * target).sum(-1)

        y = _backtrack(y, step, gradient, objective)
    even = total[:, None] * (y @ basis.mT).masked_fill_(hidden, -torch.inf).softmax(-1)
    missed = (even @ basis - target).norm(dim=-1) > RESIDUAL
    return even.masked_fill(missed[:, None], torch.nan)


def _newton_step(
    basis: Float64[Tensor, "key rank"], gradient: Float64[Tensor, "query rank"], even: Float64[Tensor, "query key"]
) -> Float64[Tensor, "query rank"]:
    hessian = torch.einsum("qk,ka,kb->qab", even, basis, basis)
    ridge = 1e-3 * gradient.norm(dim=-1) * hessian.diagonal(dim1=-2, dim2=-1).mean(-1) + 1e-15
    hessian.diagonal(dim1=-2, dim2=-1).add_(ridge[:, None])
    factor = torch.linalg.cholesky_ex(hessian).L
    return -torch.cholesky_solve(gradient[..., None], factor)[..., 0]


def _backtrack(y: Tensor, step: Tensor, gradient: Tensor, objective: Callable[[Tensor], Tensor]) -> Tensor:
    """Halve each row's step until its objective decreases sufficiently."""
    before, slope = objective(y), (gradient * step).sum(-1)
    length = torch.ones_like(before)
    for _ in range(40):
        short = objective(y + length[:, None] * step) > before + 1e-4 * length * slope + 1e-15 * before.abs()
        if not bool(short.any()):
            break
        length = torch.where(short, length / 2, length)
    return y + length[:, None] * step
