"""How far a hidden vector turns."""

from jaxtyping import Float, Float64
from torch import Tensor

from identiformer.equations.arrays import same_kind
from identiformer.equations.identifiability.recovery import unit
from identiformer.equations.scaling import moderate_size


@same_kind
def cosine_distance(
    first: Float[Tensor, "*#batch row width"], second: Float[Tensor, "*#batch row width"]
) -> Float64[Tensor, "*batch row"]:
    """1 - cos(x, y) of each pair of rows: 0 where they point the same way, 2 where they point opposite ways.

    Computed as ½‖x̂ - ŷ‖², because 1 - cos loses half of its digits where the two are nearly alike.

    >>> import torch
    >>> cosine_distance(torch.tensor([[2.0, 0.0], [1.0, 0.0]]), torch.tensor([[5.0, 0.0], [0.0, 1.0]]))
    tensor([0., 1.], dtype=torch.float64)
    """
    # Each row by itself: one may be of any size beside another.
    ours, theirs = (unit(moderate_size(each.double()[..., None, :])[0][..., 0, :]) for each in (first, second))
    return (ours - theirs).square().sum(-1) / 2
