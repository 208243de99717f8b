"""Where a result came from, written on it."""

import json
from collections.abc import Mapping
from importlib.metadata import version
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


def package_versions(*more: str) -> dict[str, str]:
    """Return the versions of the packages that numbers depend on, and of more packages by name."""
    return {package: version(package) for package in ("identiformer", "torch", "transformers", "numpy", *more)}
