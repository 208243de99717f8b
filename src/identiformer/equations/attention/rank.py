"""Numerical rank of a head's values, judged by the precision in which they were produced."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

from identiformer.equations.arrays import moderate_size, same_kind, times_power_of_two
from identiformer.errors import InputError

# Half-precision values carry rounding noise of this relative size; LAPACK's rule would call them all rank 0.
HALF_ROUNDING = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}

# A float64 Gram matrix squares the condition number: below this ratio of eigenvalues its inverse has lost the six
# digits that we promise, and the singular values themselves decide.
TRUSTED_GRAM = 1e-10

# Rounding of a Gram matrix moves A⊥V from AV by about the condition number of V times that of float64. That is far below the
# rounding of values in lower precision, but values in float64 need a well-conditioned Gram matrix, or the SVD.
ACCURATE_GRAM = 1e-4


def precision_of(values: Tensor) -> torch.dtype:
    """The precision in which values were produced, as far as their digits show it.

    float64 entries that all have no more digits than float32 were computed in float32 and converted since. Half precision does
    not show, since short numbers of any origin look like it: pass `precision` to functions that take it.

    >>> precision_of(torch.tensor([0.1]).double()), precision_of(torch.tensor([0.1], dtype=torch.float64))
    (torch.float32, torch.float64)
    """
    if values.dtype != torch.float64:
        return values.dtype
    mantissa = torch.frexp(values).mantissa
    return torch.float32 if bool((mantissa == mantissa.float()).all()) else torch.float64


def noise_floor_squared(
    top_squared: Float64[Tensor, "*batch"],
    total_squared: Float64[Tensor, "*batch"],
    keys: Int64[Tensor, "*#batch"] | int,
    width: int,
    precision: torch.dtype,
) -> Float64[Tensor, "*batch"]:
    """The square of τ: singular values of V (keys x width) at or below τ are rounding noise.

    float32, float64: τ = σ₁·max(n, d_v)·eps, LAPACK's rule with the eps of the dtype that made V.
    bfloat16, float16: τ = (u/√3)·rms(V)·(√n + √d_v), the norm of a random matrix of rounding errors.
    `top_squared` is σ₁² (or a bound above it), `total_squared` is ‖V‖_F².
    """
    count = torch.as_tensor(keys, dtype=torch.float64, device=top_squared.device)
    if precision in HALF_ROUNDING:
        unit = HALF_ROUNDING[precision]
        mean_square = total_squared / (count * width)
        return mean_square * (unit**2 / 3) * (count.sqrt() + width**0.5) ** 2
    if precision not in (torch.float32, torch.float64):
        raise InputError(f"expected values of a floating dtype, got {precision}; convert them to float32 first.")
    return top_squared * (count.clamp(min=width) * torch.finfo(precision).eps) ** 2


def above_noise(
    sigma: Float64[Tensor, "*batch side"], keys: Int64[Tensor, "*#batch"] | int, width: int, precision: torch.dtype
) -> Bool[Tensor, "*batch side"]:
    """Which singular values of V, largest first, are more than rounding noise."""
    squared = sigma.square()
    floor = noise_floor_squared(squared[..., :1].sum(-1), squared.sum(-1), keys, width, precision)
    return squared > floor[..., None]


@dataclass(frozen=True)
class RowSpace:
    """The space of effective rows: `values @ whitening` is an orthonormal basis of it.

    With V = UΣX^T cut at its numerical rank r, `whitening` is XΣ^{-1} up to a rotation (zero columns beyond r), so that
    P = (V·whitening)(V·whitening)^T projects A on A⊥, and G^+ = whitening·whitening^T.
    """

    whitening: Float64[Tensor, "*batch width rank"]
    rank: Int64[Tensor, "*batch"]
    smallest: Float64[Tensor, "*batch"]
    """A lower bound on the smallest singular value kept."""
    doubtful: Bool[Tensor, "*batch"]
    """Which matrices were decided by their SVD."""
    left: Float64[Tensor, "doubtful key rank"] | None = None
    """The bases of those, orthonormal to rounding whatever the condition number, as `values @ whitening` is not."""


def refine(
    whitened: Float64[Tensor, "row repeat rank"],
    outputs: Float64[Tensor, "row repeat width"],
    values: Float64[Tensor, "*#row key width"],
    basis: Float64[Tensor, "*#row key rank"],
    whitening: Float64[Tensor, "*#row width rank"],
) -> Float64[Tensor, "row repeat rank"]:
    """Outputs whitened to the digits of float64: o·XΣ^{-1} alone magnifies the rounding of X."""
    return whitened + (outputs - whitened @ (basis.mT @ values)) @ whitening


def row_space(values: Float64[Tensor, "*batch key width"], precision: torch.dtype) -> RowSpace:
    """Rank and whitening of each matrix of a batch: Cholesky proves full rank, SVD decides the rest."""
    keys, width = values.shape[-2:]
    short = values.mT.contiguous() if keys >= width else values  # products of contiguous rows are faster
    gram = short @ short.mT
    inverse, smallest_squared = inverse_factor(gram)
    # Few keys: V·V^T(VV^T)^{-1} = I is an orthonormal basis of everything.
    whitening = inverse.mT if keys >= width else values.mT @ (inverse.mT @ inverse)
    rank = torch.full(gram.shape[:-2], min(keys, width), device=values.device)
    smallest = smallest_squared.sqrt()
    doubtful = ~(smallest_squared > full_rank_bar(gram, keys, width, precision))
    if not bool(doubtful.any()):
        return RowSpace(whitening, rank, smallest, doubtful)
    decided = by_singular_values(values[doubtful], keys, precision)
    whitening[doubtful], rank[doubtful], smallest[doubtful] = decided.whitening, decided.rank, decided.smallest
    return RowSpace(whitening, rank, smallest, doubtful, decided.left)


def inverse_factor(
    gram: Float64[Tensor, "*batch side side"],
) -> tuple[Float64[Tensor, "*batch side side"], Float64[Tensor, "*batch"]]:
    """L^{-1} of gram = LL^T, and a lower bound on gram's smallest eigenvalue: 1/λ_min ≤ tr(gram^{-1}) = ‖L^{-1}‖_F².

    The bound is 0 where gram is not positive definite in float64.
    """
    factor, failed = torch.linalg.cholesky_ex(gram)
    identity = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
    inverse = torch.linalg.solve_triangular(factor, identity.expand_as(gram), upper=False)
    smallest = torch.linalg.matrix_norm(inverse).pow(-2)
    return inverse, torch.where(failed == 0, smallest, 0.0)


def full_rank_bar(
    gram: Float64[Tensor, "*batch side side"], keys: Int64[Tensor, "*#batch"] | int, width: int, precision: torch.dtype
) -> Float64[Tensor, "*batch"]:
    """The threshold above which a lower bound on the smallest eigenvalue proves full rank, with λ_max ≤ ‖gram‖_∞."""
    top = gram.abs().sum(-1).amax(-1)
    return bar_above_noise(top, gram.diagonal(dim1=-2, dim2=-1).sum(-1), keys, width, precision)


def bar_above_noise(
    top_squared: Float64[Tensor, "*batch"],
    total_squared: Float64[Tensor, "*batch"],
    keys: Int64[Tensor, "*#batch"] | int,
    width: int,
    precision: torch.dtype,
) -> Float64[Tensor, "*batch"]:
    """The higher of the noise floor and the smallest eigenvalue that a Gram matrix resolves well enough for this precision."""
    floor = noise_floor_squared(top_squared, total_squared, keys, width, precision)
    return torch.maximum(floor, top_squared * (ACCURATE_GRAM if precision == torch.float64 else TRUSTED_GRAM))


def by_singular_values(
    values: Float64[Tensor, "batch key width"], keys: Int64[Tensor, " #batch"] | int, precision: torch.dtype
) -> RowSpace:
    """The row spaces of a batch from their SVD; `keys` is the number that sets the threshold."""
    left, sigma, right = torch.linalg.svd(values, full_matrices=False)
    kept = above_noise(sigma, keys, values.shape[-1], precision)
    whitening = right.mT * torch.where(kept, 1 / sigma.clamp(min=torch.finfo(sigma.dtype).tiny), 0)[:, None, :]
    rank = kept.sum(-1)
    smallest = sigma.gather(-1, (rank - 1).clamp(min=0)[:, None])[:, 0]
    return RowSpace(whitening, rank, smallest, torch.ones_like(rank, dtype=torch.bool), left * kept[:, None])


@same_kind
def numerical_rank(values: Float[Tensor, "*batch key width"], precision: torch.dtype | None = None) -> Int64[Tensor, "*batch"]:
    """The numerical rank of V: the number of singular values above the rounding noise of its precision. §3.1, Eq. 4.

    Parameters
    ----------
    values : float array (... key width)
    precision : torch.dtype, optional
        The dtype in which V was computed, if it was converted since (from float32, V itself shows it).

    Returns
    -------
    int64 array (...)

    Examples
    --------
    >>> int(numerical_rank(torch.ones(5, 3)))
    1
    """
    precision, (keys, width) = precision or precision_of(values), values.shape[-2:]
    doubled = moderate_size(values)[0].double()
    short = doubled if keys <= width else doubled.mT
    squared = torch.linalg.eigvalsh(short @ short.mT).flip(-1)
    floor = noise_floor_squared(squared[..., 0], squared.clamp(min=0).sum(-1), keys, width, precision)
    if bool((floor < squared[..., 0] * TRUSTED_GRAM).any()):  # too fine for squares
        return above_noise(torch.linalg.svdvals(doubled), keys, width, precision).sum(-1)
    return (squared > floor[..., None]).sum(-1)


@same_kind
def singular_values(values: Float[Tensor, "*batch key width"]) -> Float64[Tensor, "*batch side"]:
    """The singular values of V, largest first, exact to 1e-8 of the largest.

    Parameters
    ----------
    values : float array (... key width)

    Returns
    -------
    float64 array (... component), with min(key, width) components

    Examples
    --------
    >>> singular_values(torch.diag(torch.tensor([3.0, 4.0])))
    tensor([4., 3.], dtype=torch.float64)
    """
    moderate, exponent = moderate_size(values)
    short = moderate.double() if values.shape[-2] <= values.shape[-1] else moderate.double().mT
    sigma = torch.linalg.eigvalsh(short @ short.mT).clamp(min=0).sqrt().flip(-1)
    return times_power_of_two(sigma, exponent[..., None])


@same_kind
def left_null_space(values: Float[Tensor, "key width"], precision: torch.dtype | None = None) -> Float64[Tensor, "key nullity"]:
    """An orthonormal basis N of LN(V) = {x : x^T V = 0}, the changes of attention that leave the output unchanged. §3.1.

    Parameters
    ----------
    values : float array (key width)
    precision : torch.dtype, optional
        The dtype in which V was computed, if it was converted since (from float32, V itself shows it).

    Returns
    -------
    float64 array (key nullity)

    Examples
    --------
    >>> left_null_space(torch.ones(5, 3)).shape
    torch.Size([5, 4])
    """
    left, sigma, _ = torch.linalg.svd(moderate_size(values)[0].double(), full_matrices=True)
    return left[:, int(above_noise(sigma, values.shape[0], values.shape[1], precision or precision_of(values)).sum()) :]
