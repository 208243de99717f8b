"""Values as the output projection sees them: T = VH. §3.1, Eq. 2."""

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor

from identiformer.equations.arrays import same_kind
from identiformer.equations.attention.rank import noise_floor_squared, numerical_rank
from identiformer.equations.scaling import moderate_size, times_power_of_two


@same_kind
def full_row_rank(projection: Float[Tensor, "head width model"]) -> Bool[Tensor, " head"]:
    """Whether a head's slice H of the output projection keeps all of V: then LN(VH) = LN(V)."""
    return numerical_rank(projection.mT) == projection.shape[1]


@same_kind
def projection_root(projection: Float[Tensor, "head width model"]) -> Float64[Tensor, "head width width"]:
    """R with RR^T = HH^T: values·R is as narrow as V and has the row products, null space and singular values of T = VH.

    Directions that H loses, up to its own rounding, become zero columns. Where H has full row rank LN(VR) = LN(V).
    """
    moderate, exponent = moderate_size(projection)
    left, sigma, _ = torch.linalg.svd(moderate.double(), full_matrices=False)
    width, model = projection.shape[1:]
    squared = sigma.square()
    floor = noise_floor_squared(squared[:, 0], squared.sum(-1), model, width, projection.dtype)
    root = left * torch.where(squared > floor[:, None], sigma, 0)[:, None, :]
    return torch.nn.functional.pad(times_power_of_two(root, exponent[:, None, None]), (0, width - root.shape[-1]))
