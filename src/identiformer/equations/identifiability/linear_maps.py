"""The linear maps from hidden to input space that have a closed form: ridge and orthogonal Procrustes. §4, B.1."""

import copy
from typing import NamedTuple

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from identiformer.equations.identifiability.recovery import unit
from identiformer.errors import InputError

BLOCK = 65_536  # rows that are doubled in precision at a time


class Moments(NamedTuple):
    """EᵀE and EᵀX of some tokens. Moments of disjoint sets add up, so those of a training split are all minus the held-out."""

    gram: Float64[Tensor, "width width"]
    cross: Float64[Tensor, "width input_width"]

    def minus(self, other: "Moments") -> "Moments":
        """Moments of a set without a subset of it."""
        return Moments(self.gram - other.gram, self.cross - other.cross)


def moments(hidden: Float[Tensor, "row width"], inputs: Float[Tensor, "input_row input_width"]) -> Moments:
    """The moments of hidden vectors and their inputs, in double precision."""
    if len(hidden) != len(inputs):
        raise InputError(f"expected as many inputs as hidden vectors, got {len(inputs)} and {len(hidden)}.")
    gram = hidden.new_zeros(hidden.shape[1], hidden.shape[1], dtype=torch.float64)
    cross = hidden.new_zeros(hidden.shape[1], inputs.shape[1], dtype=torch.float64)
    for rows, targets in zip(hidden.split(BLOCK), inputs.split(BLOCK), strict=True):
        doubled = rows.double()
        gram.addmm_(doubled.mT, doubled)
        cross.addmm_(doubled.mT, targets.double())
    return Moments(gram, cross)


class RidgePath:
    """Ridge regression toward a map W₀: W = (EᵀE + λI)⁻¹(EᵀX + λW₀), with one eigendecomposition, EᵀE = QSQᵀ, for every λ.

    W minimizes ‖EW - X‖² + λ‖W - W₀‖²: least squares for λ = 0, W₀ itself for λ = ∞. Without W₀ it shrinks toward zero.
    λ is in units of the mean eigenvalue, so that it does not depend on the length of the vectors.

    >>> path = RidgePath(moments(torch.eye(2) * 2, torch.eye(2)))
    >>> path.weights(1e-9).round(decimals=3)
    tensor([[0.5000, 0.0000],
            [0.0000, 0.5000]], dtype=torch.float64)
    >>> path.basis @ path.scaled(path.basis.mT @ torch.ones(2, 2, dtype=torch.float64))
    tensor([[0.2500, 0.2500],
            [0.2500, 0.2500]], dtype=torch.float64)
    """

    def __init__(self, training: Moments) -> None:
        spectrum, self.basis = torch.linalg.eigh(training.gram)
        self._spectrum = spectrum.clamp(min=0)  # rounding where vectors do not span the space
        self._unit = self._spectrum.mean().clamp(min=torch.finfo(torch.float64).tiny)
        self._cross = self.basis.mT @ training.cross

    def onto(self, cross: Float64[Tensor, "width input_width"]) -> "RidgePath":
        """The path of the same vectors onto other inputs, from their EᵀX, with the same eigendecomposition."""
        path = copy.copy(self)
        path._cross = self.basis.mT @ cross
        return path

    def weights(
        self, shrinkage: float, toward: Float64[Tensor, "width input_width"] | None = None
    ) -> Float64[Tensor, "width input_width"]:
        """W for one λ = shrinkage × the mean eigenvalue."""
        return self.basis @ self.coordinates(shrinkage, None if toward is None else self.basis.mT @ toward)

    def coordinates(
        self, shrinkage: float, toward: Float64[Tensor, "width input_width"] | None = None
    ) -> Float64[Tensor, "width input_width"]:
        """QᵀW from QᵀW₀, which spares the product with Q when many λ are tried on vectors EQ."""
        if shrinkage == torch.inf:
            return torch.zeros_like(self._cross) if toward is None else toward
        penalty = shrinkage * self._unit
        target = self._cross if toward is None else self._cross + penalty * toward
        return target / (self._spectrum + penalty)[:, None]

    def scaled(self, turned: Float64[Tensor, "width input_width"]) -> Float64[Tensor, "width input_width"]:
        """The multiple of a map D with the least squared error, s = ⟨D, EᵀX⟩ / ⟨D, EᵀED⟩: sQᵀD from QᵀD."""
        return turned * ((turned * self._cross).sum() / self._power(turned))

    def normalized(self, weights: Float64[Tensor, "width input_width"]) -> Float64[Tensor, "width input_width"]:
        """The multiple of a map whose predictions have norm one over all vectors: W / ‖EW‖."""
        return weights / self._power(self.basis.mT @ weights).sqrt()

    def _power(self, turned: Float64[Tensor, "width input_width"]) -> Float64[Tensor, ""]:
        power = (self._spectrum[:, None] * turned.square()).sum()
        return power.clamp(min=torch.finfo(torch.float64).tiny)

    def leading(self, number: int) -> Float64[Tensor, "width direction"]:
        """The leading principal directions, which the vectors have in common."""
        return self.basis[:, len(self.basis) - number :]


def orthogonal_map(cross: Float64[Tensor, "width input_width"]) -> Float64[Tensor, "width input_width"]:
    """Orthogonal Procrustes: the W with orthonormal columns (or rows) of largest mean cosine.

    SVD(ÊᵀX̂) = USVᵀ, W = UVᵀ. With unit rows Ê and X̂ it is the exact optimum, since an orthogonal map preserves lengths.
    """
    left, _, right = torch.linalg.svd(cross, full_matrices=False)
    return left @ right


def without_shared(hidden: Float[Tensor, "row width"], shared: Float[Tensor, "width direction"]) -> Float[Tensor, "row width"]:
    """Vectors without their components along some orthonormal directions, at length one: (e - eUUᵀ) / ‖e - eUUᵀ‖."""
    return unit(hidden - (hidden @ shared) @ shared.mT)


def cosine_loss(predicted: Float[Tensor, "row width"], targets: Float[Tensor, "row width"]) -> Float[Tensor, ""]:
    """The mean of 1 - cos(p, x)."""
    return 1 - torch.linalg.vecdot(unit(predicted), unit(targets)).mean()


def cosine_gradient(predicted: Float[Tensor, "row width"], targets: Float[Tensor, "row width"]) -> Float[Tensor, "row width"]:
    """∂/∂p of the mean of 1 - cos(p, x), where x has length one: ((p̂·x)p̂ - x)/‖p‖, over the number of rows.

    The gradient overwrites the predictions: allocating memory would cost as much as the arithmetic.
    """
    inverse = torch.linalg.vector_norm(predicted, dim=-1, keepdim=True).clamp(min=torch.finfo(predicted.dtype).tiny).reciprocal()
    cosine = torch.linalg.vecdot(predicted, targets)[:, None] * inverse
    return predicted.mul_(cosine * inverse).sub_(targets).mul_(inverse / len(predicted))


def squared_loss(predicted: Float[Tensor, "row width"], targets: Float[Tensor, "row width"]) -> Float[Tensor, ""]:
    """The mean of |p - x|²."""
    return (predicted - targets).square().sum(-1).mean()


def squared_gradient(predicted: Float[Tensor, "row width"], targets: Float[Tensor, "row width"]) -> Float[Tensor, "row width"]:
    """∂/∂p of the mean of |p - x|², which overwrites the predictions."""
    return predicted.sub_(targets).mul_(2 / len(predicted))
