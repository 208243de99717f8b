"""Pack arrays into as few bits per number as requested: fixed point with one step per column, without gaps between numbers.

Fixed 16 bits would be simpler, but take 40% more space, which a report of 512 tokens does not have, and be too coarse for the
effective attention of some decoders.
"""

from typing import Any

import numpy as np
from jaxtyping import Float, Int

MOST_BITS = 24
"""With at most 7 bits left over from the byte before, a number fits into the 32 bits that the page's script computes with."""


def quantize(array: Float[np.ndarray, "group row column"], bits: Int[np.ndarray, " group"]) -> tuple[np.ndarray, np.ndarray]:
    """Quantize each column of each group to signed integers of the group's bits; value ≈ integer · the column's float32 step.

    >>> integers, step = quantize(np.array([[[0.5], [-1.0]]]), np.array([8]))
    >>> integers.tolist(), round(float(step[0, 0] * 127), 6)
    ([[[64], [-127]]], 1.0)
    """
    top = 2.0 ** (bits[:, None] - 1) - 1
    step = (np.abs(array).max(1, initial=0.0) / top).astype(np.float32)
    step[step == 0] = 1
    return np.rint(array / step[:, None]).clip(-top[..., None], top[..., None]).astype(np.int32), step


def rounded(
    array: Float[np.ndarray, "group row column"], bits: Int[np.ndarray, " group"]
) -> Float[np.ndarray, "group row column"]:
    """The array as the page will read it."""
    integers, step = quantize(array, bits)
    return integers * step[:, None].astype(np.float64)


def pack(array: Float[np.ndarray, "group row column"], bits: Int[np.ndarray, " group"]) -> tuple[dict[str, Any], bytes]:
    """A description of the array, and its bytes: for each group the steps of its columns, then its integers, high bits first."""
    integers, step = quantize(array, bits)
    groups = [
        steps.astype("<f4").tobytes() + _pack_bits(numbers, width)
        for numbers, steps, width in zip(integers, step, bits.tolist(), strict=True)
    ]
    starts = np.cumsum([0, *map(len, groups)])[:-1]
    return {"shape": list(array.shape[1:]), "bits": bits.tolist(), "starts": starts.tolist()}, b"".join(groups)


def _pack_bits(numbers: Int[np.ndarray, "row column"], width: int) -> bytes:
    unsigned = numbers.ravel() + 2 ** (width - 1)
    digits = (unsigned[:, None] >> np.arange(width - 1, -1, -1)) & 1
    packed = np.packbits(digits.astype(np.uint8)).tobytes()
    return packed + b"\0" * (-len(packed) % 4)  # so that the float32 steps of the next group are aligned
