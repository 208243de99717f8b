"""ALTI: how much closer each key's part brings a vector to what the layer outputs (Ferrando et al. 2022)."""

import torch
from jaxtyping import Float
from torch import Tensor

from identiformer.equations.arrays import same_kind
from identiformer.equations.maps.rows import normalized_rows

KEYS = 2
"""Keys whose parts are formed at a time: few enough for the cache, and one for each of two threads."""


@same_kind
def proximity(
    weights: Float[Tensor, "head query key"],
    transformed: Float[Tensor, "head key model"],
    residual: Float[Tensor, "query model"],
    outputs: Float[Tensor, "query model"],
) -> Float[Tensor, "query key"]:
    """The contribution of each key's part T_ij to an output y_i: max(0, ‖y_i‖₁ - ‖y_i - T_ij‖₁), as shares (ALTI, §3.2).

    T_ij = Σ_h a_ij·t_j, with the residual vector r_i added for j = i. What y has besides its parts, such as biases, belongs to
    no key. A factor per query, such as that of a LayerNorm, cancels.

    Parameters
    ----------
    weights : float array (head query key)
        A.
    transformed : float array (head key model)
        t.
    residual, outputs : float arrays (query model)
        r and y.

    Returns
    -------
    float array (query key)
        Rows sum to 1; zero in rows where no part is nearer to the output than nothing is.

    Examples
    --------
    >>> transformed, residual = torch.tensor([[[4.0], [-2.0]]]), torch.tensor([[1.0], [0.0]])
    >>> weights = torch.full((1, 2, 2), 0.5)
    >>> proximity(weights, transformed, residual, torch.tensor([[2.0], [1.0]]))
    tensor([[1., 0.],
            [0., 0.]])
    """
    lengths = outputs.abs().sum(-1)
    by_key, written = weights.movedim(2, 0).mT.contiguous(), transformed.transpose(0, 1).contiguous()
    distances = []
    for start in range(0, len(by_key), KEYS):
        keys = slice(start, start + KEYS)
        parts = by_key[keys] @ written[keys]  # (key query model)
        parts.diagonal(start, 0, 1).add_(residual[keys].mT)
        distances.append(parts.sub_(outputs).abs_().sum(-1))
    return normalized_rows((lengths - torch.cat(distances)).clamp_(min=0).mT)
