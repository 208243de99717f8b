"""Hidden Token Attribution (§5): contributions of input tokens to hidden vectors, estimated from random directions."""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

from identiformer.equations.arrays import same_kind
from identiformer.errors import InputError

CONFIDENCE = 0.95
PRIOR_DEGREES = 6
"""How much the mean ratio of a layer says of one of its blocks, in degrees of freedom: few, since ratios differ between blocks.
Set so that intervals have their coverage in MiniLM."""
MEAN_OVER_SPREAD = (2 / torch.pi) ** 0.5
"""E|x| of a normal variable of unit variance."""
NEIGHBORS = {"1st": (1, 1), "2nd": (2, 2), "3rd": (3, 3), "4th-5th": (4, 5), "6th-10th": (6, 10), "11th on": (11, None)}
"""The paper's groups of neighbors, by their distance on either side."""


class NormEstimate(NamedTuple):
    """Frobenius norms of Jacobian blocks, estimated from directions."""

    norm: Float64[Tensor, "*layer target source"]
    """‖J‖_F, corrected for the bias of the root."""
    variance: Float64[Tensor, "*layer target source"]
    """w, the squared relative standard error of the norm."""
    degrees: Float64[Tensor, " source"]
    """The degrees of freedom of w, which itself is an estimate."""

    def error(self, shares: Tensor, members: Tensor | None = None) -> Tensor:
        return contribution_error(shares, self.variance, members)

    def interval(self, shares: Tensor) -> Tensor:
        return contribution_interval(shares, self.variance, self.degrees)

    def main_contributor_certain(self, shares: Tensor) -> Tensor:
        return main_contributor_certain(shares, self.variance, self.degrees)

    def undecided(self, shares: Tensor, tolerance: float) -> Tensor:
        return undecided_sources(shares, self.variance, self.degrees, tolerance)


@same_kind
def contribution(norms: Float[Tensor, "*layer target source"]) -> Float[Tensor, "*layer target source"]:
    """The contribution of each input token to each hidden vector: c_ij = ‖∂e_j/∂x_i‖ / Σ_k ‖∂e_j/∂x_k‖. §5.1, Eq. 11.

    >>> contribution(torch.tensor([[1.0, 3.0]]))
    tensor([[0.2500, 0.7500]])
    """
    total = norms.sum(-1, keepdim=True)
    if bool((total == 0).any()):
        index = tuple((total[..., 0] == 0).nonzero()[0].tolist())
        raise InputError(f"expected some nonzero norm per hidden vector, got only zeros at {index}; its shares are undefined.")
    return norms / total


def orthonormal_directions(width: int, start: int, stop: int, seed: tuple[int, ...]) -> Float64[Tensor, "direction width"]:
    """Directions `start` to `stop` of a random orthonormal frame, of length √d, so that ‖Jr‖² is ‖J‖_F² in expectation.

    They depend only on the seed and their index, not on how many are drawn at once. The mean over k of them has the
    variance 2(d-k)(d‖M‖_F² - τ²)/(k(d-1)(d+2)) with M = J^TJ and τ = tr M, which is 0 at k = d.

    >>> frame = orthonormal_directions(5, 0, 5, seed=(7,))
    >>> torch.allclose(frame @ frame.mT, 5 * torch.eye(5, dtype=torch.float64))
    True
    """
    normal = torch.from_numpy(np.random.default_rng(seed).standard_normal((stop, width)))
    return torch.linalg.qr(normal.mT).Q.mT[start:] * width**0.5


@same_kind
def estimate_norms(
    mean: Float64[Tensor, "*layer target source"],
    spread: Float64[Tensor, "*layer target source"],
    directions: Int64[Tensor, " source"],
    own: Bool[Tensor, "target source"],
    width: int,
) -> NormEstimate:
    """Norms ‖J‖_F from the mean and the spread (unbiased variance) of ‖Jr‖² over a source's orthonormal directions r.

    The mean estimates ‖J‖_F² without bias and is exact at k = d. Its relative variance is (1 - k/d)·s²/(k·mean²), as for a
    sample without replacement; that of the norm is a quarter of it, w, and the norm's relative bias -w/2. The ratio s²/mean²
    estimates q = 2/ρ - 2/d, with ρ the participation rank of J^TJ. For ‖Jr‖² of a gamma distribution its mean is q/(1 + q/k),
    which is undone. A block's own ratio, of k - 1 degrees of freedom, is averaged with that of its layer, separately for a
    token's own vector, which counts as `PRIOR_DEGREES` more.
    """
    variance = torch.zeros_like(mean)
    left = (1 - directions / width) / (4 * directions)
    degrees = PRIOR_DEGREES + directions.double() - 1
    for block in (own, ~own):
        pooled = (mean > 0) & block
        ratio = torch.where(pooled, spread / mean.square(), 0.0)
        typical = ratio.sum((-2, -1), keepdim=True) / pooled.sum((-2, -1), keepdim=True).clamp(min=1)
        unbiased = (typical / (1 - typical / directions).clamp(min=0.5)).clamp(max=2)  # ρ is at least 1
        relative = torch.where(typical > 0, ratio / typical, 1.0)
        variance += pooled * left * unbiased * (PRIOR_DEGREES + (directions - 1) * relative) / degrees
    return NormEstimate(mean.sqrt() * (1 + variance / 2), variance, degrees)


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


def log_margin(variance: Float64[Tensor, "*shape"], spread: Float64[Tensor, "*shape"]) -> Float64[Tensor, "*shape"]:
    """The half-width of a confidence interval: Student's t, with Satterthwaite's degrees of freedom variance²/spread.

    The variance is a sum of estimates x_i of ν_i degrees of freedom, and the spread is Σ x_i²/ν_i.
    """
    from scipy.special import stdtrit  # slow to import, and needed by few

    degrees = torch.where(spread > 0, variance.square() / spread, torch.inf)
    return torch.from_numpy(stdtrit(degrees.numpy(force=True), (1 + CONFIDENCE) / 2)).to(variance) * variance.sqrt()


@same_kind
def contribution_interval(
    shares: Float64[Tensor, "*layer target source"],
    variance: Float64[Tensor, "*layer target source"],
    degrees: Float64[Tensor, " source"],
) -> Float64[Tensor, "bound *layer target source"]:
    """The confidence interval of a contribution, low and high: c·exp(±t·error/c), with t of Student's distribution.

    Errors of norms are proportional to them, so their logarithm is close to normal. (error/c)² is (1 - c_i)²·w_i + Σ_m c_m²w_m
    over the other sources m, and each w is an estimate, so it has Satterthwaite's degrees of freedom.
    """

    def summed(own: Tensor, power: int) -> Tensor:
        weighed = shares.pow(power) * own
        return (1 - shares).pow(power) * own + (weighed.sum(-1, keepdim=True) - weighed).clamp(min=0)

    width = log_margin(summed(variance, 2), summed(variance.square() / degrees, 4))
    return torch.stack([shares * torch.exp(-width), (shares * torch.exp(width)).clamp(max=1)])


@same_kind
def main_contributor_certain(
    shares: Float64[Tensor, "*layer target source"],
    variance: Float64[Tensor, "*layer target source"],
    degrees: Float64[Tensor, " source"],
) -> Bool[Tensor, "*layer target"]:
    """Whether the largest contribution exceeds every other by more than the error of their log ratio, √(w_1 + w_m)."""
    return ~_rivals(shares, variance, degrees).any(-1)


def _rivals(
    shares: Float64[Tensor, "*layer target source"],
    variance: Float64[Tensor, "*layer target source"],
    degrees: Float64[Tensor, " source"],
) -> Bool[Tensor, "*layer target source"]:
    """Sources whose contribution may, within the error, be as large as the largest."""
    index, spread = shares.argmax(-1, keepdim=True), variance.square() / degrees
    margin = log_margin(variance + variance.gather(-1, index), spread + spread.gather(-1, index))
    return close_to_largest(shares, margin)


def close_to_largest(
    shares: Float64[Tensor, "*layer target source"], margin: Float64[Tensor, "*layer target source"]
) -> Bool[Tensor, "*layer target source"]:
    """Sources other than that of the largest contribution whose log ratio to it is within a margin."""
    largest, index = shares.max(-1, keepdim=True)
    close = (shares > 0) & (torch.log(largest / shares) <= margin)
    return close.scatter(-1, index, False)


@same_kind
def distribution_error(error: Float64[Tensor, "*layer target source"]) -> Float64[Tensor, "*layer target"]:
    """The expected total variation between estimated and true contributions: E ½Σ_i|ĉ_i - c_i|."""
    return MEAN_OVER_SPREAD * error.sum(-1) / 2


@same_kind
def undecided_sources(
    shares: Float64[Tensor, "*layer target source"],
    variance: Float64[Tensor, "*layer target source"],
    degrees: Float64[Tensor, " source"],
    tolerance: float,
) -> Bool[Tensor, " source"]:
    """The sources that need more directions before the distribution error of every vector is within the tolerance.

    A relative error √w_i of the norm of source i moves the distribution by c_i(1 - c_i)√w_i, and the sum of these moves bounds
    its error. For a vector whose error exceeds the tolerance these are the sources that move it by more than an even share of
    it; for a vector whose main contributor is undecided, the candidates.
    """
    if not 0 < tolerance < 1:
        raise InputError(f"expected a tolerance between 0 and 1, got {tolerance:g}.")
    excessive = distribution_error(contribution_error(shares, variance)) > tolerance
    moves = MEAN_OVER_SPREAD * shares * (1 - shares) * variance.sqrt()
    too_much = excessive[..., None] & (moves * shares.shape[-1] > tolerance)
    rivals = _rivals(shares, variance, degrees)
    first = torch.zeros_like(rivals).scatter(-1, shares.argmax(-1, keepdim=True), True)
    undecided = (rivals | (first & rivals.any(-1, keepdim=True))) & (variance > 0)
    return (too_much | undecided).flatten(0, -2).any(0)


@same_kind
def contribution_by_distance(
    shares: Float[Tensor, "*layer target source"], targets: Int64[Tensor, " target"]
) -> Float[Tensor, "*layer distance"]:
    """Contribution by signed distance, source - target, from -(n-1) to n-1, summed over targets and normalized. §5.3, Fig. 4b.

    A token's own contribution, at distance 0, is left out and reported as 0.
    """
    positions = shares.shape[-1]
    offset = torch.arange(positions, device=shares.device) - targets[:, None] + positions - 1
    summed = shares.new_zeros(*shares.shape[:-2], 2 * positions - 1)
    summed.index_add_(-1, offset.flatten(), shares.flatten(-2))
    summed[..., positions - 1] = 0
    return summed / summed.sum(-1, keepdim=True)


@same_kind
def contribution_by_neighbors(
    shares: Float[Tensor, "*layer target source"], targets: Int64[Tensor, " target"]
) -> Float[Tensor, "*layer target group"]:
    """The mean contribution of each group of neighbors of a token; NaN where it has none of them. §5.3, Fig. 4a, C.2."""
    distance = (torch.arange(shares.shape[-1], device=shares.device) - targets[:, None]).abs()
    groups = []
    for nearest, farthest in NEIGHBORS.values():
        member = (distance >= nearest) & (distance <= (shares.shape[-1] if farthest is None else farthest))
        groups.append((shares * member).sum(-1) / member.sum(-1))
    return torch.stack(groups, -1)
