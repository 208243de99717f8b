"""What is certain of one row of attention, as plain data for a page."""

import json
from typing import Any

import numpy as np
import xarray as xr

from identiformer.models.interventions.patching import Change


def verdict_of(result: xr.Dataset, rerun: dict[str, Any] | None = None) -> dict[str, Any]:
    """One row of `ambiguity`, with its alternatives, and with what running the model with one of them changed."""
    one = result.isel(query=0)
    names = [str(name) for name in one["alternative"].values] if "alternatives" in one else []
    moved = {name: float(one.total_variation.sel(alternative=name)) for name in names}
    return {
        "layer": int(one["layer"]),
        "head": int(one["head"]),
        "query": int(one["query"]),
        "tolerance": json.loads(result.attrs["settings"])["tolerance"],
        **{name: _plain(one[name].values) for name in ("raw", "low", "high")},
        "largest": int(one.largest),
        "argmax_certified": bool(one.argmax_certified),
        "rival": int(one.rival),
        "alternatives": {
            name: {"row": _plain(one.alternatives.sel(alternative=name).values), "total_variation": moved[name]}
            for name in names
            if not np.isnan(moved[name])
        },
        **({"rerun": rerun} if rerun else {}),
    }


def rerun_of(alternative: str, output: Change) -> dict[str, Any]:
    """How far the output moved with an alternative, beside a random change of the same size."""
    numbers = {name: getattr(output, name) for name in ("patched", "control", "floor", "scale")}
    return {"alternative": alternative, **numbers}


def _plain(row: np.ndarray) -> list[float | None]:
    return [None if np.isnan(value) else round(float(value), 6) for value in row]
