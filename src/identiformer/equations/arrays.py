"""How equations take their arrays: tensors or NumPy, floating point, scaled by powers of two where squares could overflow."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast, get_args

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from identiformer.errors import InputError

F = TypeVar("F", bound=Callable[..., Any])


def same_kind(function: F) -> F:
    """Let a function of tensors also take NumPy arrays, and then return NumPy arrays."""
    checked = floating(function)

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if not any(isinstance(value, np.ndarray) for value in (*args, *kwargs.values())):
            return checked(*args, **kwargs)
        return _to_numpy(checked(*map(_to_tensor, args), **{name: _to_tensor(value) for name, value in kwargs.items()}))

    return cast(F, functools.update_wrapper(wrapper, checked))


def floating(function: F) -> F:
    """Reject integers, booleans and complex numbers where a function's annotations expect floating-point arrays.

    Integer attention would be computed in floating point and then truncated to integers.
    """
    parameters = inspect.signature(function).parameters
    required = frozenset(name for name, parameter in parameters.items() if _expects_floats(parameter.annotation))
    names = tuple(parameters)

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        for name, value in (*zip(names, args, strict=False), *kwargs.items()):
            if name in required:
                _require_floating(name, value)
        return function(*args, **kwargs)

    wrapper.floating_parameters = required  # pyright: ignore[reportAttributeAccessIssue]
    return cast(F, wrapper)


def _expects_floats(annotation: Any) -> bool:
    """Whether all arrays among the members of an annotation are floating-point."""
    dtypes = [dtype for kind in get_args(annotation) or (annotation,) for dtype in getattr(kind, "dtypes", ())]
    return bool(dtypes) and all("float" in dtype for dtype in dtypes)


def _require_floating(name: str, value: Any) -> None:
    if isinstance(value, Tensor):
        accepted = value.is_floating_point()
    elif isinstance(value, np.ndarray):
        accepted = value.dtype.kind == "f"
    else:
        accepted = not isinstance(value, list | tuple | int | float | complex)
    if not accepted:
        dtype = str(getattr(value, "dtype", type(value).__name__)).removeprefix("torch.")
        raise InputError(f"expected {name} to be a floating-point array, got {dtype}; convert it first, such as to float64.")


def _to_tensor(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    try:
        return torch.from_numpy(np.require(value, requirements=("C", "W")))
    except TypeError:
        raise InputError(f"expected an array of numbers, got one of dtype {value.dtype}; convert it first.") from None


def _to_numpy(value: Any) -> Any:
    if isinstance(value, tuple):  # a named one
        return type(value)(*map(_to_numpy, value))
    return value.detach().cpu().numpy() if isinstance(value, Tensor) else value


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
    """Compute numbers · 2^exponent exactly; in two steps, since 2^1074 itself is not a float64."""
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
