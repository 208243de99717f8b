"""A hash of all that a result holds, however it is stored."""

import hashlib
import json
from typing import Any

import numpy as np
import xarray as xr


def content_hash(result: xr.Dataset) -> str:
    """Hash every variable, coordinate and attribute of a result: what a store loses or alters changes it.

    Zarr fills a chunk that is missing with zeros or NaN and says nothing, so only the numbers themselves can be trusted.
    """
    digest = hashlib.sha256(_json(dict(result.attrs)))
    for name in sorted(map(str, result.variables)):
        variable = result.variables[name]
        values = np.asarray(variable.values)
        if values.dtype.kind in "OUST":  # stores differ in how they keep text, not in the text
            kind, content = "text", _json(values.astype(object).tolist())
        else:
            plain = values.astype(values.dtype.newbyteorder("<"))
            if plain.dtype.kind == "f":
                plain = np.where(np.isnan(plain), plain.dtype.type(np.nan), plain)  # NaN has many bit patterns; Zarr keeps one
            kind, content = plain.dtype.str, plain.tobytes()
        digest.update(_json([name, list(map(str, variable.dims)), list(values.shape), kind, len(content)]) + content)
    return f"sha256:{digest.hexdigest()}"


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, default=lambda other: np.asarray(other).tolist()).encode()
