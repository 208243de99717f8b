"""How far two maps over the same tokens say the same, row by row."""

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor

from identiformer.equations.arrays import same_kind
from identiformer.equations.scaling import moderate_size


@same_kind
def row_correlation(
    first: Float[Tensor, "*batch row key"], second: Float[Tensor, "*batch row key"], visible: Bool[Tensor, "*#batch row key"]
) -> Float64[Tensor, "*batch row"]:
    """Pearson's correlation of each row of two maps, over its visible keys; NaN where one of the two does not vary.

    >>> row_correlation(torch.tensor([[1.0, 2.0, 9.0]]), torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([[True, True, False]]))
    tensor([-1.0000], dtype=torch.float64)
    """
    count = visible.sum(-1, keepdim=True)
    maps = [moderate_size(each)[0].double() for each in (first, second)]
    centered = [torch.where(visible, each - (each * visible).sum(-1, keepdim=True) / count, 0.0) for each in maps]
    lengths = centered[0].norm(dim=-1) * centered[1].norm(dim=-1)
    return torch.where(lengths > 0, (centered[0] * centered[1]).sum(-1) / lengths, torch.nan)
