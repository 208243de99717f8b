"""Leverage: how much of a weight on a key the output can see, whatever the weight."""

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from identiformer.equations.arrays import same_kind
from identiformer.equations.attention.rank import row_space
from identiformer.equations.attention.row_solver import solve_rows
from identiformer.equations.attention.visibility import Visibility
from identiformer.equations.scaling import moderate_size, require_comparable


@same_kind
def leverage(
    values: Float[Tensor, "group key width"], visible: Visibility | None = None, precision: torch.dtype | None = None
) -> Float64[Tensor, "group key"]:
    """The visible share of a unit weight on key j, ℓ_j = v_j G^+ v_j, in the row of the last query that sees j.

    0 ≤ ℓ ≤ 1, and the leverages of the keys of a row sum to its rank. A key with a small value vector has little: its
    column of A⊥ is near 0 whatever its weight, since |a⊥_ij| ≤ ‖a⊥_i‖·√ℓ_j. Keys that no query sees have none.

    >>> leverage(torch.tensor([[[1.0], [1.0], [0.0]]]))
    tensor([[0.5000, 0.5000, 0.0000]], dtype=torch.float64)
    """
    precision = precision or values.dtype
    doubled = moderate_size(values)[0].double()
    if visible is None or visible.shared:
        basis = row_space(doubled, precision).whitening.mT @ doubled.mT
        return basis.square().sum(-2)
    require_comparable(doubled)
    viewer = visible.last_viewer()
    keys = (viewer >= 0).nonzero()[:, 0]
    rows = visible.rows(viewer[keys])
    answer = doubled.new_zeros(doubled.shape[:2])
    for group, own in enumerate(doubled):
        # v_j takes the place of the output, in the row of its last viewer: y = G^+ v_j.
        y = solve_rows(own[keys][:, None], own, rows, precision).y[:, 0]
        answer[group, keys] = (y * own[keys]).sum(-1)
    return answer.clamp(0, 1)
