"""Contributions whose norms are estimated along directions that all sources share, so that their errors are correlated."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from identiformer.equations.attribution.hidden_token import close_to_largest, distribution_error, log_margin


class SharedNorms(NamedTuple):
    """Frobenius norms of a target's Jacobian blocks, estimated along directions r of the target.

    Errors of the estimates of two sources are correlated, but a sum Σ_i α_i log‖J_i‖ with Σ_i α_i = 0 has the error of a single
    quadratic form, half the mean of r^T A r with A = Σ_i α_i J_iJ_i^T/‖J_i‖². Over k of d directions its variance is about
    (1 - k/d)·‖A‖_F²/2k. Products r^T A r' of two directions show ‖A‖_F² too, and there are more of them than directions.
    """

    norm: Float64[Tensor, "layer target source"]
    """‖J‖_F, corrected for the bias of the root."""
    products: tuple[Float64[Tensor, "layer target _ _ source"], ...]
    """r^T J_iJ_i^T r' in units of the mean ‖J_i^T r‖², for pairs of some directions each; (… direction 1 …) for r = r' alone."""
    scale: float
    """What the sum of squares of products is multiplied by for a variance."""
    degrees: float
    """The degrees of freedom of a variance, which itself is an estimate."""

    def error(
        self, shares: Float64[Tensor, "layer target source"], members: Bool[Tensor, "set source"] | None = None
    ) -> Float64[Tensor, "layer target _"]:
        """The standard error of the contribution of each source, or of each set of sources."""
        if members is None:
            return shares * self._of_contributions(shares).sqrt()
        inside = members.to(shares.dtype).mT
        total = (shares @ inside)[:, :, None, None]

        def of_sets(block: Tensor) -> Tensor:
            weighed = block * shares[:, :, None, None]
            return weighed @ inside - weighed.sum(-1, keepdim=True) * total

        return self._variance(of_sets).sqrt()

    def interval(self, shares: Float64[Tensor, "layer target source"]) -> Float64[Tensor, "bound layer target source"]:
        """The confidence interval of each contribution, low and high."""
        width = self._margin(self._of_contributions(shares))
        return torch.stack([shares * torch.exp(-width), (shares * torch.exp(width)).clamp(max=1)])

    def main_contributor_certain(self, shares: Float64[Tensor, "layer target source"]) -> Bool[Tensor, "layer target"]:
        """Whether the largest contribution exceeds every other by more than the error of their log ratio."""
        first = shares.argmax(-1, keepdim=True)

        def of_ratios(block: Tensor) -> Tensor:
            return block - block.gather(-1, first[:, :, None, None].expand(*block.shape[:-1], 1))

        return ~close_to_largest(shares, self._margin(self._variance(of_ratios))).any(-1)

    def undecided(self, shares: Float64[Tensor, "layer target source"], tolerance: float) -> Bool[Tensor, " source"]:
        """The sources that need more directions: all, which share them, or none."""
        excessive = distribution_error(self.error(shares)) > tolerance
        more = self.scale > 0 and bool((excessive | ~self.main_contributor_certain(shares)).any())
        return torch.full(shares.shape[-1:], more)

    def _of_contributions(self, shares: Tensor) -> Tensor:
        """The variance of the logarithm of each contribution c_i = ‖J_i‖/Σ_m‖J_m‖, where α_m = δ_im - c_m."""
        return self._variance(lambda block: block - (block * shares[:, :, None, None]).sum(-1, keepdim=True))

    def _margin(self, variance: Tensor) -> Tensor:
        return log_margin(variance, variance.square() / self.degrees)

    def _variance(self, combine: Callable[[Tensor], Tensor]) -> Tensor:
        """The variance of sums over sources, from the same sums of their products."""
        return self.scale * torch.stack([combine(block).square().sum((2, 3)) for block in self.products]).sum(0)


def shared_norms(
    mean: Float64[Tensor, "layer target source"],
    products: Sequence[Float64[Tensor, "layer target _ _ source"]],
    width: int,
) -> SharedNorms:
    """Norms ‖J‖_F and their errors from the mean of ‖J^T r‖² and the products of blocks of directions.

    A block of b directions has b(b + 1)/2 different products, and the mean uses up one number of all. Jacobians with few large
    singular values leave a variance fewer degrees of freedom: twice those of the directions alone, measured over several models.
    """
    directions = sum(block.shape[2] for block in products)
    numbers = sum(block.shape[2] * (block.shape[3] + 1) / 2 for block in products) - 1
    scale = (1 - directions / width) / (4 * directions * numbers)
    unit = torch.where(mean > 0, 1 / mean.clamp(min=torch.finfo(mean.dtype).tiny), 0.0)
    relative = tuple(block * unit[:, :, None, None] for block in products)
    # The bias of a root is half its relative variance, with A = J_iJ_i^T/‖J_i‖² less its trace.
    above = [block - torch.eye(*block.shape[2:4])[..., None] if block.shape[3] > 1 else block - 1 for block in relative]
    variance = scale * torch.stack([block.square().sum((2, 3)) for block in above]).sum(0) * (mean > 0)
    return SharedNorms(mean.sqrt() * (1 + variance / 2), relative, scale, 2 * (directions - 1))
