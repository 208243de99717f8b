"""Random directions by which the norm of a matrix is estimated from a few products with it."""

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor


def orthonormal_directions(width: int, start: int, stop: int, seed: tuple[int, ...]) -> Float64[Tensor, "direction width"]:
    """Probes number `start` to `stop` of a random orthonormal frame, of length √d, so that ‖Jr‖² is ‖J‖_F² in expectation.

    They depend on the seed and their number alone, not on how many are taken or in what portions. The mean over k of them
    has the variance 2(d-k)(d‖M‖_F² - τ²)/(k(d-1)(d+2)), where M = J^TJ and τ = tr M: nothing is left at k = d.

    >>> frame = orthonormal_directions(5, 0, 5, seed=(7,))
    >>> torch.allclose(frame @ frame.mT, 5 * torch.eye(5, dtype=torch.float64))
    True
    """
    normal = torch.from_numpy(np.random.default_rng(seed).standard_normal((stop, width)))
    return torch.linalg.qr(normal.mT).Q.mT[start:] * width**0.5
