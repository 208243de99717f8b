"""Tensors in, tensors out; NumPy arrays in, NumPy arrays out; floating-point arrays where floats are expected."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast, get_args

import numpy as np
import torch
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
