"""Certified fractions of the large weights of every head, for a page without a server."""

import base64
from typing import Any

import numpy as np
import xarray as xr

SMALLEST_WEIGHT = 0.05
"""Of smaller weights a page has no bounds: there are too many, and they are drawn faintly."""
STEPS = 255
"""Fractions are rounded down to 255ths, so that what the page calls certified is."""


def pack_bounds(result: xr.Dataset) -> dict[str, Any]:
    """The certified fraction of every weight of at least 0.05, from a certified `attention_reading`.

    For each row, the number of such weights, then their keys and fractions: one, two and one bytes each. `starts` has the first
    byte of each head by its layer and number.
    """
    content, starts = bytearray(), {}
    for layer in result["layer"].values.tolist():
        for head in result["head"].values.tolist():
            one = result.sel(layer=layer, head=head)
            if not bool(one.certified.notnull()):
                continue
            starts[f"{layer} {head}"] = len(content)
            weights, low = one.weight.values, np.nan_to_num(one.low.values)
            fraction = np.floor((low / np.maximum(weights, 1e-12)).clip(0, 1) * STEPS).astype(np.uint8)
            for row, large in enumerate(weights >= SMALLEST_WEIGHT):
                keys = np.flatnonzero(large)
                content += bytes([len(keys)]) + keys.astype("<u2").tobytes() + fraction[row, keys].tobytes()
    return {"starts": starts, "content": base64.b64encode(bytes(content)).decode()}
