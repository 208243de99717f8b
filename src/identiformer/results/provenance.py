"""Where a result came from, written on it."""

import json
from collections.abc import Mapping
from typing import Any

import xarray as xr

from identiformer.results.schema import SCHEMA_VERSION, validate


def describe(result: xr.Dataset, measure: str, source: Mapping[str, str], settings: Mapping[str, Any]) -> xr.Dataset:
    """Write on a result what measured it, from which model and text, with which settings and versions."""
    attributes = {
        "measure": measure,
        "schema_version": SCHEMA_VERSION,
        "settings": json.dumps(dict(settings), sort_keys=True),
        **source,
    }
    return validate(result.assign_attrs(attributes))
