"""Arrays in as few bits a number as asked: fixed point, one step a column, numbers packed without gaps."""

from typing import Any

import numpy as np
from jaxtyping import Float, Int

MOST_BITS = 24
"""A reader that holds 32 bits can take a number of so many from any place."""


def quantize(array: Float[np.ndarray, "group row column"], bits: Int[np.ndarray, " group"]) -> tuple[np.ndarray, np.ndarray]:
    """Whole numbers from -(2^(bits-1)-1) to 2^(bits-1)-1, and for each column the float32 step that they count.

    >>> whole, step = quantize(np.array([[[0.5], [-1.0]]]), np.array([8]))
    >>> whole.tolist(), round(float(step[0, 0] * 127), 6)
    ([[[64], [-127]]], 1.0)
    """
    top = 2.0 ** (bits[:, None] - 1) - 1
    step = (np.abs(array).max(1, initial=0.0) / top).astype(np.float32)
    step[step == 0] = 1
    return np.rint(array / step[:, None]).clip(-top[..., None], top[..., None]).astype(np.int32), step


def rounded(
    array: Float[np.ndarray, "group row column"], bits: Int[np.ndarray, " group"]
) -> Float[np.ndarray, "group row column"]:
    """The array as it will be read back."""
    whole, step = quantize(array, bits)
    return whole * step[:, None].astype(np.float64)


def pack(array: Float[np.ndarray, "group row column"], bits: Int[np.ndarray, " group"]) -> tuple[dict[str, Any], bytes]:
    """What describes the array, and its bytes: for each group the steps of its columns, then its numbers, high bits first."""
    whole, step = quantize(array, bits)
    groups = [
        steps.astype("<f4").tobytes() + _pack_bits(numbers, width)
        for numbers, steps, width in zip(whole, step, bits.tolist(), strict=True)
    ]
    starts = np.cumsum([0, *map(len, groups)])[:-1]
    return {"shape": list(array.shape[1:]), "bits": bits.tolist(), "starts": starts.tolist()}, b"".join(groups)


def _pack_bits(numbers: Int[np.ndarray, "row column"], width: int) -> bytes:
    unsigned = numbers.ravel() + 2 ** (width - 1)
    digits = (unsigned[:, None] >> np.arange(width - 1, -1, -1)) & 1
    packed = np.packbits(digits.astype(np.uint8)).tobytes()
    return packed + b"\0" * (-len(packed) % 4)  # groups begin where a float32 may be read
