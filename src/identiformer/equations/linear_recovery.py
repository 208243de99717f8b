"""The linear maps from hidden to input space that have a closed form: ridge and orthogonal Procrustes. §4, B.1."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from identiformer.equations.token_recovery import unit
from identiformer.errors import InputError

BLOCK = 65_536  # rows that are doubled in precision at a time


class Moments(NamedTuple):
    """EᵀE and EᵀX of some tokens. Those of disjoint sets add up, so a training part is the whole less what is held out."""

    gram: Float64[Tensor, "width width"]
    cross: Float64[Tensor, "width input_width"]

    def plus(self, other: "Moments") -> "Moments":
        """Those of both sets together."""
        return Moments(self.gram + other.gram, self.cross + other.cross)

    def less(self, other: "Moments") -> "Moments":
        """Those of what is left of a set when a part of it is taken away."""
        return Moments(self.gram - other.gram, self.cross - other.cross)


def moments(hidden: Float[Tensor, "row width"], inputs: Float[Tensor, "input_row input_width"]) -> Moments:
    """The moments of hidden vectors and the inputs that they came from, in double precision."""
    if len(hidden) != len(inputs):
        raise InputError(f"expected as many inputs as hidden vectors, got {len(inputs)} and {len(hidden)}.")
    gram = torch.zeros(hidden.shape[1], hidden.shape[1], dtype=torch.float64)
    cross = torch.zeros(hidden.shape[1], inputs.shape[1], dtype=torch.float64)
    for rows, targets in zip(hidden.split(BLOCK), inputs.split(BLOCK), strict=True):
        doubled = rows.double()
        gram.addmm_(doubled.mT, doubled)
        cross.addmm_(doubled.mT, targets.double())
    return Moments(gram, cross)


class RidgePath:
    """Ridge regression W = (EᵀE + λI)⁻¹EᵀX: one eigendecomposition, EᵀE = QSQᵀ, for every λ.

    λ is given in units of the mean eigenvalue, so that it means the same whatever the length of the vectors.

    >>> RidgePath(moments(torch.eye(2) * 2, torch.eye(2))).weights(1e-9).round(decimals=3)
    tensor([[0.5000, 0.0000],
            [0.0000, 0.5000]], dtype=torch.float64)
    """

    def __init__(self, training: Moments) -> None:
        spectrum, self._basis = torch.linalg.eigh(training.gram)
        self._spectrum = spectrum.clamp(min=0)  # less than rounding where vectors span less than the space
        self._unit = self._spectrum.mean().clamp(min=torch.finfo(torch.float64).tiny)
        self._cross = self._basis.mT @ training.cross

    def weights(self, shrinkage: float) -> Float64[Tensor, "width input_width"]:
        """W for one λ = shrinkage × the mean eigenvalue."""
        return self._basis @ (self._cross / self._shrunk(shrinkage)[:, None])

    def whitening(self, shrinkage: float) -> Float64[Tensor, "width width"]:
        """B with Bᵀ(EᵀE + λI)B = I: coordinates in which the loss is equally steep everywhere."""
        return self._basis * self._shrunk(shrinkage).rsqrt()

    def _shrunk(self, shrinkage: float) -> Tensor:
        return self._spectrum + shrinkage * self._unit


def orthogonal_map(cross: Float64[Tensor, "width input_width"]) -> Float64[Tensor, "width input_width"]:
    """Orthogonal Procrustes: of all W with orthonormal columns (or rows), that of the largest mean cosine.

    SVD(ÊᵀX̂) = USVᵀ, W = UVᵀ. With unit rows Ê and X̂ it is the exact optimum, since an orthogonal map changes no length.
    """
    left, _, right = torch.linalg.svd(cross, full_matrices=False)
    return left @ right


def cosine_descent(
    start: Float[Tensor, "width input_width"],
    whitening: Float[Tensor, "width width"],
    hidden: Float[Tensor, "row width"],
    inputs: Float[Tensor, "row input_width"],
    steps: int,
) -> Iterator[Float[Tensor, "width input_width"]]:
    """Linear maps of ever smaller mean cosine distance, by L-BFGS from a start; no closed form is known.

    It moves in whitened coordinates: hidden vectors lie in a narrow cone, and along its thin directions plain steps crawl.
    """
    targets = unit(inputs)
    whitening = whitening * len(hidden) ** 0.5  # so that the mean loss is as steep as L-BFGS takes for granted
    moved = torch.zeros_like(start, requires_grad=True)
    optimiser = torch.optim.LBFGS([moved], max_iter=1, line_search_fn="strong_wolfe", history_size=steps + 1)

    known: list[Tensor] = []  # where the loss was last asked for, and what it was there: each step asks again where it stands

    def loss() -> Tensor:
        if not known or not torch.equal(known[0], moved):
            with torch.no_grad():
                gradient, mean = cosine_gradient(hidden @ torch.addmm(start, whitening, moved), targets)
                known[:] = [moved.detach().clone(), mean, whitening.mT @ (hidden.mT @ gradient)]
        moved.grad = known[2].clone()
        return known[1]

    optimiser.step(loss)  # the first is short, to learn how steep the loss is
    for _ in range(steps):
        optimiser.step(loss)
        yield torch.addmm(start, whitening, moved).detach()


def cosine_gradient(
    predicted: Float[Tensor, "row width"], targets: Float[Tensor, "row width"]
) -> tuple[Float[Tensor, "row width"], Float[Tensor, ""]]:
    """∂/∂p of the mean of 1 - cos(p, x), and that mean; x has length one: ∂ = ((p̂·x)p̂ - x)/‖p‖, over the number of rows.

    The gradient is written over the predictions: fresh memory would cost as much as the arithmetic.
    """
    inverse = torch.linalg.vector_norm(predicted, dim=-1, keepdim=True).clamp(min=torch.finfo(predicted.dtype).tiny).reciprocal()
    cosine = torch.linalg.vecdot(predicted, targets)[:, None] * inverse
    gradient = predicted.mul_(cosine * inverse).sub_(targets).mul_(inverse / len(predicted))
    return gradient, 1 - cosine.mean()


def squared_gradient(
    predicted: Float[Tensor, "row width"], targets: Float[Tensor, "row width"]
) -> tuple[Float[Tensor, "row width"], Float[Tensor, ""]]:
    """∂/∂p of the mean of |p - x|², and that mean; the gradient is written over the predictions."""
    error = predicted.sub_(targets)
    loss = torch.linalg.vecdot(error, error).mean()
    return error.mul_(2 / len(error)), loss
