"""Tensors in, tensors out; NumPy arrays in, NumPy arrays out."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from identiformer.errors import InputError

F = TypeVar("F", bound=Callable[..., Any])


def same_kind(function: F) -> F:
    """Let a function of tensors also take NumPy arrays, and answer in the kind that it was given."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        given_numpy = any(isinstance(value, np.ndarray) for value in (*args, *kwargs.values()))
        if not given_numpy:
            return function(*args, **kwargs)
        answer = function(*map(_to_tensor, args), **{name: _to_tensor(value) for name, value in kwargs.items()})
        return _to_numpy(answer)

    return cast(F, wrapper)


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
