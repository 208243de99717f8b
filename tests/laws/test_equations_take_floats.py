"""Every equation computes in floating point: other dtypes are rejected, never truncated."""

import numpy as np
import pytest
import torch

from identiformer import equations
from identiformer.errors import InputError
from tests.laws.equations import VALUES, WEIGHTS, arguments, public_equations


@pytest.mark.parametrize("name", sorted(public_equations()))
def test_numbers_that_are_not_floating_are_rejected(name):
    function, given = public_equations()[name], arguments(name)
    function(**given)
    arrays = {key: np.asarray(value) for key, value in given.items() if isinstance(value, torch.Tensor | np.ndarray)}
    numbers = [key for key, array in arrays.items() if array.dtype.kind == "f"]
    assert numbers or "feasible" in given
    for key in numbers:
        for kind in (np.int64, np.int8, np.bool_, np.complex128):
            other = np.asarray(given[key]).astype(kind)
            kinds = [other] if isinstance(given[key], np.ndarray) else [other, torch.from_numpy(other)]
            for wrong in kinds:
                with pytest.raises(InputError, match=f"expected {key} to be a floating-point array, got {other.dtype}"):
                    function(**{**given, key: wrong})


def test_positional_arguments_and_lists_are_checked_too():
    with pytest.raises(InputError, match="expected weights to be a floating-point array, got int64"):
        equations.effective_attention(np.array([[1, 0, 0]]), VALUES.numpy())
    with pytest.raises(InputError, match="expected values to be a floating-point array, got list"):
        equations.effective_attention(WEIGHTS, VALUES.tolist())
