"""Random combinations of a model's outputs, whose gradients estimate how far a change moves all of them at once."""

import torch
from jaxtyping import Float
from torch import Tensor


def fisher_cotangents(
    log_probabilities: Float[Tensor, "*position token"], generator: torch.Generator | None = None
) -> Float[Tensor, "*position token"]:
    """U = √π ∘ ε - π·⟨√π, ε⟩ for Gaussian ε: the mean of uuᵀ is the Fisher information of the logits, diag(π) - ππᵀ.

    A small change δ of the logits changes the distribution by KL ≈ ½·δᵀ(diag(π) - ππᵀ)δ, the mean of ½·⟨u, δ⟩².

    Parameters
    ----------
    log_probabilities : float tensor (… token)
        log π of each position; draws of different positions are independent.
    generator : torch.Generator, optional
        Of ε, on the CPU.

    Returns
    -------
    float tensor (… token)

    Examples
    --------
    >>> u = fisher_cotangents(torch.tensor([0.5, 0.5]).log().expand(100_000, 2), torch.Generator().manual_seed(0))
    >>> (u.mT @ u / len(u)).round(decimals=2)
    tensor([[ 0.2500, -0.2500],
            [-0.2500,  0.2500]])
    """
    root = (log_probabilities / 2).exp()
    noise = torch.randn(log_probabilities.shape, generator=generator, dtype=log_probabilities.dtype).to(root.device)
    return root * noise - root.square() * (root * noise).sum(-1, keepdim=True)


def direction_cotangents(
    vectors: Float[Tensor, "*position width"], draws: int, generator: torch.Generator | None = None
) -> Float[Tensor, "draw *position width"]:
    """Orthogonal directions u at right angles to a vector y, scaled so that the mean of ½·⟨u, δ⟩² is 1 - cos(y, y + δ).

    To second order 1 - cos = ½·‖δ_⊥‖²/‖y‖², with δ_⊥ the part of δ at right angles to y. Beyond width - 1 draws, further ones
    come from another random basis.

    Parameters
    ----------
    vectors : float tensor (… width)
        y of each position; draws of different positions are independent.
    draws : int
        The number of directions.
    generator : torch.Generator, optional
        Of the directions, on the CPU.

    Returns
    -------
    float tensor (draw … width)

    Examples
    --------
    >>> u = direction_cotangents(torch.tensor([3.0, 0.0, 4.0]), 2, torch.Generator().manual_seed(0))
    >>> (u @ u.mT).abs().round(decimals=4)  # two directions at right angles, of squared length (width - 1)/‖y‖²
    tensor([[0.0800, 0.0000],
            [0.0000, 0.0800]])
    """
    width = vectors.shape[-1]
    flat = vectors.reshape(-1, width).double().cpu()
    found: list[Tensor] = []
    for first in range(0, draws, width - 1):
        count = min(width - 1, draws - first)
        noise = torch.randn(len(flat), width, count, generator=generator, dtype=torch.float64)
        basis = torch.linalg.qr(torch.cat([flat[..., None], noise], -1)).Q[..., 1:]
        found.append(basis * ((width - 1) ** 0.5 / flat.norm(dim=-1)[:, None, None]))
    directions = torch.cat(found, -1).permute(2, 0, 1)
    return directions.reshape(draws, *vectors.shape).to(vectors)


def divergence(
    logits: Float[Tensor, "*#copy position token"], changed: Float[Tensor, "*copy position token"]
) -> Float[Tensor, "*copy position"]:
    """KL(π ‖ π') per position, from logits: log Σ π·e^δ with δ the difference of the logits minus its mean under π.

    Written as log(1 + Σ π·(e^δ - 1 - δ)), whose terms are not negative: differences of almost equal numbers, of which the sum
    Σ π·(log π - log π') consists, leave rounding errors of the size of the effect of a single weight.

    Examples
    --------
    >>> before, after = torch.tensor([[0.5, 0.5], [0.75, 0.25]]).log()
    >>> divergence(before[None], after[None])
    tensor([0.1438])
    """
    probabilities = logits.softmax(-1)
    delta = changed - logits
    delta = delta - torch.linalg.vecdot(probabilities, delta)[..., None]
    if float(delta.abs().max()) < SERIES:  # exact in float32, and much faster
        excess = _series(delta)
    else:
        excess = torch.where(delta.abs() < SERIES, _series(delta), delta.expm1() - delta)
    return torch.linalg.vecdot(probabilities, excess).log1p()


def _series(delta: Tensor) -> Tensor:
    return delta.square() * (1 / 2 + delta * (1 / 6 + delta * (1 / 24 + delta / 120)))


SERIES = 0.1
"""Differences up to which e^δ - 1 - δ is computed by its series."""
