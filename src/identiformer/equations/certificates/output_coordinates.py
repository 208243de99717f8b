"""What a head's output sees of the weights on some keys, in orthonormal coordinates."""

from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from identiformer.equations.attention.rank import noise_floor_squared
from identiformer.equations.certificates.linear_program import LinearProgram
from identiformer.equations.scaling import moderate_size

LARGEST_WEIGHT = 1.05  # rounded rows may sum to a little more than one

EPSILON = float(np.finfo(np.float64).eps)
ROUNDINGS = 64
"""A change of output counts as none up to so many roundings of float64, times the larger side of T, times σ₁."""
AMBIGUOUS = 1e-8
"""Directions that values fill to less than √eps of the strongest: whether output sees them is a matter of rounding."""


class ExactCoordinates(NamedTuple):
    """The directions of weights that leave the output only where the weights do not move along them."""

    directions: Float64[np.ndarray, "key rank"]
    sigma: Float64[np.ndarray, " rank"]
    """How much the output changes along each."""
    rounding: float
    """A change of the output that is none."""
    ambiguous: Bool[np.ndarray, " rank"]


class OutputCoordinates:
    """What a head's output sees of the weights on some keys: T = UΣX^T.

    With a tolerance all of T counts, and directions that are rounding noise take no part in what is certain. Without one,
    T is cut at the numerical rank of the values.
    """

    def __init__(
        self, values: Float64[Tensor, "key width"], output: Float64[Tensor, "key outer"], precision: torch.dtype, sink: bool
    ) -> None:
        """The rank is that of `values`; distances are those of `output`, the values as the output projection leaves them.

        Both may be of any size: a power of two brings them to a moderate one, and lengths of output are in units of it.
        """
        self.precision, self.sink = precision, sink
        self.values, output = moderate_size(values)[0], moderate_size(output)[0]
        left, sigma, _ = torch.linalg.svd(output, full_matrices=False)
        floor = noise_floor_squared(sigma[0].square(), sigma.square().sum(), len(output), output.shape[1], precision)
        self.directions: Float64[np.ndarray, "key side"] = left.numpy()
        self.sigma: Float64[np.ndarray, " side"] = sigma.numpy()
        self.output: Float64[np.ndarray, "key outer"] = output.numpy()
        self.noise = float(floor.sqrt())
        self.rounding = _rounding(output, float(sigma[0]))

    @cached_property
    def _spectrum(self) -> Float64[Tensor, " side"]:
        return torch.linalg.svdvals(self.values)

    @property
    def gap(self) -> float:
        """σ_r/σ_{r+1} of the values: how clearly their rank is told; infinite where they have no further direction."""
        sigma = self._spectrum
        rank = int((sigma.square() > _floor(self.values, sigma, self.precision)).sum())
        return float(sigma[rank - 1] / sigma[rank]) if 0 < rank < len(sigma) else float("inf")

    @cached_property
    def program(self) -> LinearProgram:
        """Its rows are the coordinates of the output and the sum."""
        return _program(self.directions)

    @cached_property
    def exact_program(self) -> LinearProgram:
        """The same for outputs that do not change at all."""
        return _program(self.exact.directions)

    @cached_property
    def exact(self) -> ExactCoordinates:
        """The coordinates in which an output that does not change is a row of zeros."""
        return self._exact(self.values, self._spectrum)

    def _exact(self, values: Float64[Tensor, "some width"], spectrum: Float64[Tensor, " side"]) -> ExactCoordinates:
        """Rows that keep their sum change the output of V as they change that of V less its mean, which does not see the sum.

        So the directions are orthogonal to the ones: two constraints that differ by rounding alone would forbid what neither
        forbids. Where a sink leaves the sum free they are those of V itself.
        """
        free = values if self.sink else values - values.mean(0)
        left, sigma, _ = torch.linalg.svd(free, full_matrices=False)
        kept = sigma.square() > _floor(values, spectrum, self.precision)
        top = float(spectrum[0])
        ambiguous = sigma[kept] <= AMBIGUOUS * top
        return ExactCoordinates(left[:, kept].numpy(), sigma[kept].numpy(), _rounding(values, top), ambiguous.numpy())

    @cached_property
    def null_space(self) -> Float64[np.ndarray, "key nullity"]:
        """An orthonormal basis of LN([T, 1]), or of LN(T) where a sink leaves the sum free: changes that nothing sees."""
        return self._complement(self.exact.directions)

    def dimension(self, support: Bool[np.ndarray, " key"]) -> int:
        """The dimension of the rows with this output that are positive on these keys and zero elsewhere."""
        if support.all():
            return self.null_space.shape[1]
        chosen = self.values[torch.from_numpy(support)]
        if not len(chosen):
            return 0
        return self._complement(self._exact(chosen, torch.linalg.svdvals(chosen)).directions).shape[1]

    def _complement(self, directions: Float64[np.ndarray, "some rank"]) -> Float64[np.ndarray, "some nullity"]:
        keys = len(directions)
        seen = directions if self.sink else np.hstack([np.full((keys, 1), keys**-0.5), directions])
        return np.linalg.qr(seen, mode="complete").Q[:, seen.shape[1] :]


def _program(directions: Float64[np.ndarray, "key some"]) -> LinearProgram:
    keys = len(directions)
    return LinearProgram(np.vstack([directions.T, np.ones(keys)]), np.full(keys, LARGEST_WEIGHT))


def _floor(values: Float64[Tensor, "key width"], sigma: Float64[Tensor, " side"], precision: torch.dtype) -> Float64[Tensor, ""]:
    return noise_floor_squared(sigma[0].square(), sigma.square().sum(), len(values), values.shape[1], precision)


def _rounding(values: Float64[Tensor, "key width"], top: float) -> float:
    return ROUNDINGS * max(values.shape) * EPSILON * top
