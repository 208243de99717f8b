"""Certified fractions of the large weights of every head, for a page without a server."""

import base64
from typing import Any

import numpy as np

from identiformer.readings.reading import Reading

STEPS = 255
"""Fractions are rounded down to 255ths, so that what the page calls certified is."""


def certified_fractions(weights: np.ndarray, low: np.ndarray) -> np.ndarray:
    """The certified fraction of each weight in 255ths."""
    return np.floor((np.nan_to_num(low) / np.maximum(weights, 1e-12)).clip(0, 1) * STEPS).astype(np.uint8)


def pack_bounds(reading: Reading, queries: int) -> dict[str, Any]:
    """The certified fraction of every weight of at least 0.05, from a certified reading.

    For each of the text's rows, the number of such weights, 0 in a row that was not read, then their keys and fractions: one, two
    and one bytes each. `starts` has the first byte of each head by its layer and number.
    """
    content, starts, read = bytearray(), {}, reading.result["query"].values
    for (layer, head), (rows, keys, weight, low) in sorted(reading.large.items()):
        starts[f"{layer} {head}"] = len(content)
        fraction, of_text = certified_fractions(weight, low), read[rows]
        for row in range(queries):
            large = of_text == row
            content += bytes([int(large.sum())]) + keys[large].astype("<u2").tobytes() + fraction[large].tobytes()
    return {"starts": starts, "content": base64.b64encode(bytes(content)).decode()}
