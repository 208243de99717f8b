"""Effective attention A⊥, the part of attention that a head's output depends on, and its null component A∥. §3.2."""

import functools
from typing import Any, cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from identiformer.equations.arrays import F, same_kind
from identiformer.equations.attention.factored import FactoredAttention, factor_weights
from identiformer.equations.attention.heads import per_head
from identiformer.equations.attention.visibility import Visibility
from identiformer.errors import InputError

Weights = Float[Tensor, "head query key"] | Float[Tensor, "query key"]
# Axis names differ from those of the weights, because `check_shapes` compares the arrays and explains a mismatch.
Values = Float[Tensor, "group value_key width"] | Float[Tensor, "value_key width"]
Visible = Visibility | Bool[Tensor, "mask_query mask_key"] | None

SUM_TOLERANCE = 1e-3
HALF_SUM_TOLERANCE = 2e-2


def accepts_one_head(function: F) -> F:
    """Let a function of weights (head query key) and values (group key width) also take those of one head, without that axis."""

    @functools.wraps(function)
    def wrapper(weights: Weights, values: Values, *args: Any, **kwargs: Any) -> Weights:
        if weights.dim() == 2 and values.dim() == 2:
            return function(weights[None], values[None], *args, **kwargs)[0]
        return function(weights, values, *args, **kwargs)

    return cast(F, wrapper)


@same_kind
@accepts_one_head
def effective_attention(
    weights: Weights, values: Values, visible: Visible = None, *, sink: bool = False, precision: torch.dtype | None = None
) -> Weights:
    """Effective attention, the part of attention that the head's output depends on: A⊥ = A - A·N·N^T. §3.2, Eqs. 8 and 9.

    N spans the left null space of the values **of the keys that a row sees**: A⊥V = AV, A∥V = 0, ⟨a∥, a⊥⟩ = 0 in each
    row, and keys that a row cannot see get exactly 0. Rows of A⊥ may be negative and need not sum to one.

    Parameters
    ----------
    weights : float array (query key) or (head query key)
        A, of one head or several; rows sum to 1 over visible keys, or to less with a sink.
    values : float array (key width) or (group key width)
        V with its bias, before grouped-query repetition: consecutive heads share a group.
    visible : Visibility or bool array (query key), optional
        The keys that each query sees; all by default.
    sink : bool
        Whether a learned sink takes the rest of each row.
    precision : torch.dtype, optional
        The dtype in which V was computed, if it was converted since (V itself shows float32). It sets the rank threshold.

    Returns
    -------
    float array, shaped like weights

    Examples
    --------
    >>> values = torch.tensor([[1.0], [1.0], [0.0]])
    >>> effective_attention(torch.tensor([[0.5, 0.3, 0.2]]), values)
    tensor([[0.4000, 0.4000, 0.0000]])
    """
    visibility = check_shapes(weights, values, visible)
    effective = effective_matrices(factor_weights(weights, values, visibility, precision), weights)
    check_rows(weights, visibility, sink)  # last, while the weights are in the cache
    return effective


def effective_matrices(
    factored: FactoredAttention, weights: Float[Tensor, "head query key"], out: Float[Tensor, "head query key"] | None = None
) -> Float[Tensor, "head query key"]:
    """A⊥ of these weights in full; rows without a null space are the weights themselves."""
    effective = factored.matrices(out)
    untouched = per_head(factored.nullity == 0, factored.heads)
    if bool(untouched.any()):
        effective[untouched] = weights[untouched].to(effective.dtype)
    return effective if out is not None else effective.to(weights.dtype)


@same_kind
def null_attention(
    weights: Weights, values: Values, visible: Visible = None, *, sink: bool = False, precision: torch.dtype | None = None
) -> Weights:
    """The null component of attention, which does not affect the head's output: A∥ = A - A⊥, with A∥V = 0. §3.2, Eq. 8.

    Parameters
    ----------
    weights, values, visible, sink, precision
        As in `effective_attention`.

    Returns
    -------
    float array, shaped like weights

    Examples
    --------
    >>> null_attention(torch.tensor([[0.5, 0.3, 0.2]]), torch.tensor([[1.0], [1.0], [0.0]]))
    tensor([[ 0.1000, -0.1000,  0.2000]])
    """
    return weights - effective_attention(weights, values, visible, sink=sink, precision=precision)


def check_shapes(weights: Weights, values: Values, visible: Visible) -> Visibility:
    """Raise where the arrays do not fit each other; return the visibility."""
    expected = "expected weights (head query key) and values (group key width) with as many keys"
    shapes = f"got {tuple(weights.shape)} and {tuple(values.shape)}"
    if weights.dim() != 3 or values.dim() != 3 or weights.shape[-1] != values.shape[1] or 0 in (*weights.shape, *values.shape):
        raise InputError(f"{expected}, {shapes}.")
    if len(weights) % len(values):
        raise InputError(f"{expected}, and a number of heads that is a multiple of the number of groups, {shapes}.")
    if not all(bool(torch.isfinite(end)) for end in torch.aminmax(values)):
        raise InputError("expected finite values, got NaN or infinity; check the model's weights.")
    return read_visibility(visible, *weights.shape[1:]).to(values.device)


def check_rows(weights: Float[Tensor, "head query key"], visibility: Visibility, sink: bool) -> Float[Tensor, "head query"]:
    """Raise where rows are not finite, do not sum to one (or less, with a sink) or weigh hidden keys; return their sums."""
    sums = weights.sum(-1, dtype=torch.float32)
    half = weights.dtype in (torch.float16, torch.bfloat16)
    excess = sums - 1 if sink else (sums - 1).abs()
    if not bool((excess <= (HALF_SUM_TOLERANCE if half else SUM_TOLERANCE)).all()):
        head, query = divmod(int(excess.argmax()), weights.shape[1])
        expected = "one or less" if sink else "one (or less, with sink=True, where a learned sink takes a share)"
        raise InputError(
            f"expected finite rows of attention that sum to {expected}, but head {head}, query {query} sums to "
            f"{float(sums[head, query]):.4g}."
        )
    if not visibility.shared:
        hidden = ~visibility.dense()
        if bool(((weights.amax(0) > 0) | (weights.amin(0) < 0)).logical_and_(hidden).any()):
            head, query, key = (int(index) for index in ((weights != 0) & hidden).nonzero()[0])
            raise InputError(
                f"expected no weight on keys that a query cannot see, but head {head}, query {query} has "
                f"{float(weights[head, query, key]):.4g} on key {key}; pass the mask that the model used."
            )
    return sums


def read_visibility(visible: Visible, queries: int, keys: int) -> Visibility:
    """A Visibility of the expected shape from None (all keys), a boolean mask or a Visibility."""
    if visible is None:
        return Visibility.full(queries, keys)
    shape = (visible.queries, visible.keys) if isinstance(visible, Visibility) else tuple(visible.shape)
    if shape != (queries, keys):
        raise InputError(f"expected a mask of shape {(queries, keys)} (query key), got {shape}.")
    return visible if isinstance(visible, Visibility) else Visibility.of(visible)
