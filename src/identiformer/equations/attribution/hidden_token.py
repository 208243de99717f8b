"""Hidden Token Attribution: how much of each input token is in each hidden vector. §5.1, Eq. 11, and its error by directions."""

from statistics import NormalDist
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

from identiformer.equations.arrays import same_kind
from identiformer.errors import InputError

CONFIDENCE = 0.95
MEAN_OVER_SPREAD = (2 / torch.pi) ** 0.5
"""E|x| of a normal variable of unit variance."""


class NormEstimate(NamedTuple):
    """Frobenius norms of Jacobian blocks, estimated from directions."""

    norm: Float64[Tensor, "*layer target source"]
    """‖J‖_F, corrected for the bias of the root."""
    variance: Float64[Tensor, "*layer target source"]
    """w, the squared relative standard error of the norm."""


@same_kind
def contribution(norms: Float[Tensor, "*layer target source"]) -> Float[Tensor, "*layer target source"]:
    """The share of each input token in each hidden vector: c_ij = ‖∂e_j/∂x_i‖ / Σ_k ‖∂e_j/∂x_k‖. Eq. 11.

    >>> contribution(torch.tensor([[1.0, 3.0]]))
    tensor([[0.2500, 0.7500]])
    """
    total = norms.sum(-1, keepdim=True)
    if bool((total == 0).any()):
        place = tuple((total[..., 0] == 0).nonzero()[0].tolist())
        raise InputError(
            f"expected norms of which some are not zero, got only zeros at {place}; shares of nothing are undefined."
        )
    return norms / total


@same_kind
def estimate_norms(
    mean: Float64[Tensor, "*layer target source"],
    spread: Float64[Tensor, "*layer target source"],
    directions: Int64[Tensor, " source"],
    own: Bool[Tensor, "target source"],
    width: int,
) -> NormEstimate:
    """Norms from orthonormal directions: the mean and the spread (unbiased variance) over a source's directions of ‖Jr‖².

    The mean estimates ‖J‖_F² without bias and is exact at k = d. Its relative variance is (1 - k/d)·s²/(k·mean²), as for a
    sample without replacement; that of the norm is a quarter of it, w, and the norm's relative bias -w/2. The ratio s²/mean²
    (2/ρ - 2/d, with ρ the participation rank of J^TJ) is pooled over each layer, apart for a token's own vector and others'.
    """
    variance = torch.zeros_like(mean)
    left = (1 - directions / width) / (4 * directions)
    for block in (own, ~own):
        seen = (mean > 0) & block
        ratio = torch.where(seen, spread / mean.square(), 0.0).sum((-2, -1), keepdim=True)
        variance += seen * left * ratio / seen.sum((-2, -1), keepdim=True).clamp(min=1)
    return NormEstimate(mean.sqrt() * (1 + variance / 2), variance)


@same_kind
def contribution_error(
    shares: Float64[Tensor, "*layer target source"],
    variance: Float64[Tensor, "*layer target source"],
    members: Bool[Tensor, "set source"] | None = None,
) -> Float64[Tensor, "*layer target set_or_source"]:
    """The standard error of the contribution of each source, or of each set of sources.

    Var c_S ≈ (1 - c_S)²·Σ_{i∈S} c_i²w_i + c_S²·Σ_{i∉S} c_i²w_i, with w the norms' relative variance.
    """
    weighed = shares.square() * variance
    everywhere = weighed.sum(-1, keepdim=True)
    inside, total = (weighed, shares) if members is None else (each @ members.to(each.dtype).mT for each in (weighed, shares))
    return ((1 - total).square() * inside + total.square() * (everywhere - inside)).clamp(min=0).sqrt()


def _quantile(confidence: float) -> float:
    """How many standard errors on either side make an interval of this confidence."""
    if not 0 < confidence < 1:
        raise InputError(f"expected a confidence between 0 and 1, got {confidence:g}.")
    return NormalDist().inv_cdf((1 + confidence) / 2)


@same_kind
def contribution_interval(
    shares: Float64[Tensor, "*layer target source"],
    error: Float64[Tensor, "*layer target source"],
    confidence: float = CONFIDENCE,
) -> Float64[Tensor, "bound *layer target source"]:
    """The interval in which a contribution lies with this confidence, low and high: c·exp(±z·error/c).

    Norms are positive and err in proportion, so it is their logarithm that is close to normal.
    """
    width = _quantile(confidence) * torch.where(shares > 0, error / shares, 0.0)
    return torch.stack([shares * torch.exp(-width), (shares * torch.exp(width)).clamp(max=1)])


@same_kind
def main_contributor_certain(
    shares: Float64[Tensor, "*layer target source"],
    variance: Float64[Tensor, "*layer target source"],
    confidence: float = CONFIDENCE,
) -> Bool[Tensor, "*layer target"]:
    """Whether the largest contribution stands above every other by more than the error of their log ratio, √(w_1 + w_m)."""
    return ~_rivals(shares, variance, confidence).any(-1)


def _rivals(
    shares: Float64[Tensor, "*layer target source"], variance: Float64[Tensor, "*layer target source"], confidence: float
) -> Bool[Tensor, "*layer target source"]:
    """Sources that may, for all we know, contribute as much as the largest."""
    largest, place = shares.max(-1, keepdim=True)
    margin = _quantile(confidence) * (variance + variance.gather(-1, place)).sqrt()
    close = (shares > 0) & (torch.log(largest / shares) <= margin)
    return close.scatter(-1, place, False)


@same_kind
def distribution_error(error: Float64[Tensor, "*layer target source"]) -> Float64[Tensor, "*layer target"]:
    """The total variation that is to be expected between estimated and true contributions: E ½Σ_i|ĉ_i - c_i|."""
    return MEAN_OVER_SPREAD * error.sum(-1) / 2


@same_kind
def undecided_sources(
    shares: Float64[Tensor, "*layer target source"],
    variance: Float64[Tensor, "*layer target source"],
    tolerance: float,
    confidence: float = CONFIDENCE,
) -> Bool[Tensor, " source"]:
    """The sources that need more directions before every vector's contributions err by less than the tolerance, as distributions.

    The norm of source i, wrong by a share √w_i, moves the distribution by c_i(1 - c_i)√w_i, and these moves together bound its
    error. Of a vector that errs by more than the tolerance, these are the sources that move it by more than an even share of
    that; of one whose main contributor is undecided, the sources that it may be.
    """
    if not 0 < tolerance < 1:
        raise InputError(f"expected a tolerance between 0 and 1, got {tolerance:g}.")
    errs = distribution_error(contribution_error(shares, variance)) > tolerance
    moves = MEAN_OVER_SPREAD * shares * (1 - shares) * variance.sqrt()
    too_much = errs[..., None] & (moves * shares.shape[-1] > tolerance)
    rivals = _rivals(shares, variance, confidence)
    first = torch.zeros_like(rivals).scatter(-1, shares.argmax(-1, keepdim=True), True)
    undecided = (rivals | (first & rivals.any(-1, keepdim=True))) & (variance > 0)
    return (too_much | undecided).flatten(0, -2).any(0)
