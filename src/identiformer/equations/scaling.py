"""Scaling by powers of two, so that squares of values of any magnitude neither overflow nor underflow.

A product with a power of two is exact, so results that do not depend on the magnitude of the values keep their bits.
"""

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from identiformer.errors import InputError

SAFE_EXPONENT = 200
"""Between 2^-200 and 2^200 the squares of Gram matrices are normal numbers; every float32 is in that range."""
FAINT = 2.0**-400
"""Squares of vectors this much smaller vanish next to those of unit vectors."""


def moderate_size(
    values: Float[Tensor, "*batch row column"],
) -> tuple[Float[Tensor, "*batch row column"], Int64[Tensor, "*batch"]]:
    """Matrices of moderate magnitude, and their exponents: values = moderate · 2^exponent.

    Numbers of less than double precision need no scaling.

    >>> moderate, exponent = moderate_size(torch.tensor([[3e-300]], dtype=torch.float64))
    >>> float(moderate), int(exponent)
    (0.50226..., -994)
    """
    if values.dtype != torch.float64 or not values.numel():
        return values, torch.zeros(values.shape[:-2], dtype=torch.int64, device=values.device)
    largest = values.abs().amax((-2, -1))
    exponent = torch.frexp(largest).exponent.long()
    moderate = (exponent.abs() <= SAFE_EXPONENT) | ~largest.isfinite()
    exponent = torch.where(moderate, 0, exponent)
    return (values if bool(moderate.all()) else times_power_of_two(values, -exponent[..., None, None])), exponent


def times_power_of_two(numbers: Float64[Tensor, "*shape"], exponent: Int64[Tensor, "*#shape"]) -> Float64[Tensor, "*shape"]:
    """numbers · 2^exponent, exactly; in two steps, since 2^1074 itself is not a float64."""
    if not bool(exponent.any()):
        return numbers
    first = exponent // 2
    return numbers * _power_of_two(first) * _power_of_two(exponent - first)


def _power_of_two(exponent: Int64[Tensor, "*shape"]) -> Float64[Tensor, "*shape"]:
    return (exponent + 1023 << 52).view(torch.float64)  # written into the bits: pow may round


def require_comparable(values: Float[Tensor, "*batch key width"]) -> None:
    """Reject values so much smaller than others that a query which sees only them would find zeros.

    Numbers of less than double precision cannot be that small.
    """
    if values.dtype != torch.float64:
        return
    size = values.abs().amax(-1)
    faint = (size > 0) & (size < FAINT * size.amax(-1, keepdim=True))
    if bool(faint.any()):
        *_, key = faint.nonzero()[0].tolist()
        raise InputError(
            f"expected values of comparable size where queries see different keys, got the largest of key {key} below 2^-400 "
            "of the largest of all; set such values to zero."
        )
