"""How a head's output depends on the weights of some keys, in orthonormal coordinates."""

from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from identiformer.equations.arrays import moderate_size
from identiformer.equations.attention.rank import noise_floor_squared
from identiformer.equations.certificates.linear_program import LinearProgram

LARGEST_WEIGHT = 1.05  # rounded rows may sum to a little more than one

EPSILON = float(np.finfo(np.float64).eps)
ROUNDINGS = 64
"""A change of output up to this many roundings of float64, times the larger side of T, times σ₁, counts as zero."""
AMBIGUOUS = 1e-8
"""Directions that values fill to less than √eps of the strongest: whether the output depends on them is a matter of rounding."""


class ExactCoordinates(NamedTuple):
    """The directions of weights along which the output changes."""

    directions: Float64[np.ndarray, "key rank"]
    sigma: Float64[np.ndarray, " rank"]
    """The change of the output per unit along each."""
    rounding: float
    """The largest change of the output that counts as zero."""
    ambiguous: Bool[np.ndarray, " rank"]


class OutputCoordinates:
    """The output as a function of the weights on some keys: T = UΣX^T.

    With a tolerance all of T counts, and directions of rounding noise do not tighten certified bounds. At tolerance zero T is
    cut at the numerical rank of the values.
    """

    def __init__(
        self, values: Float64[Tensor, "key width"], output: Float64[Tensor, "key outer"], precision: torch.dtype, sink: bool
    ) -> None:
        """`values` determine the rank, and `output` (the values after the output projection) the lengths.

        Both may be of any magnitude: they are scaled by a power of two, and lengths of the output are in units of it.
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
        """σ_r/σ_{r+1} of the values: how clear their rank is; infinite where they have no further direction."""
        sigma = self._spectrum
        rank = int((sigma.square() > _floor(self.values, sigma, self.precision)).sum())
        return float(sigma[rank - 1] / sigma[rank]) if 0 < rank < len(sigma) else float("inf")

    @cached_property
    def program(self) -> LinearProgram:
        """The linear program with one constraint per output coordinate, and a last one on the row's sum."""
        return _program(self.directions)

    @cached_property
    def exact_program(self) -> LinearProgram:
        """The linear program for exactly the same output."""
        return _program(self.exact.directions)

    @cached_property
    def exact(self) -> ExactCoordinates:
        """The coordinates that are zero exactly where the output does not change."""
        return self._exact(self.values, self._spectrum)

    def _exact(self, values: Float64[Tensor, "some width"], spectrum: Float64[Tensor, " side"]) -> ExactCoordinates:
        """Directions of V minus its mean, which rows that keep their sum cannot distinguish from V.

        They are orthogonal to the vector of ones: two constraints that differ only by rounding would together forbid rows that
        neither forbids. Where a sink leaves the sum free the directions are those of V itself.
        """
        free = values if self.sink else values - values.mean(0)
        left, sigma, _ = torch.linalg.svd(free, full_matrices=False)
        kept = sigma.square() > _floor(values, spectrum, self.precision)
        top = float(spectrum[0])
        ambiguous = sigma[kept] <= AMBIGUOUS * top
        return ExactCoordinates(left[:, kept].numpy(), sigma[kept].numpy(), _rounding(values, top), ambiguous.numpy())

    @cached_property
    def null_space(self) -> Float64[np.ndarray, "key nullity"]:
        """An orthonormal basis of LN([T, 1]), or of LN(T) where a sink leaves the sum free: changes that keep output and sum."""
        return self._complement(self.exact.directions)

    def dimension(self, support: Bool[np.ndarray, " key"]) -> int:
        """The dimension of the set of rows with this output that are positive on these keys and zero elsewhere."""
        if support.all():
            return self.null_space.shape[1]
        chosen = self.values[torch.from_numpy(support)]
        if not len(chosen):
            return 0
        return self._complement(self._exact(chosen, torch.linalg.svdvals(chosen)).directions).shape[1]

    def _complement(self, directions: Float64[np.ndarray, "some rank"]) -> Float64[np.ndarray, "some nullity"]:
        keys = len(directions)
        constrained = directions if self.sink else np.hstack([np.full((keys, 1), keys**-0.5), directions])
        return np.linalg.qr(constrained, mode="complete").Q[:, constrained.shape[1] :]


def _program(directions: Float64[np.ndarray, "key some"]) -> LinearProgram:
    keys = len(directions)
    return LinearProgram(np.vstack([directions.T, np.ones(keys)]), np.full(keys, LARGEST_WEIGHT))


def _floor(values: Float64[Tensor, "key width"], sigma: Float64[Tensor, " side"], precision: torch.dtype) -> Float64[Tensor, ""]:
    return noise_floor_squared(sigma[0].square(), sigma.square().sum(), len(values), values.shape[1], precision)


def _rounding(values: Float64[Tensor, "key width"], top: float) -> float:
    return ROUNDINGS * max(values.shape) * EPSILON * top
