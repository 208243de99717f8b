"""Results that conform to the schema: describe a result by the attributes that it requires, and check one."""

import json
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import xarray as xr

from identiformer.errors import ResultError
from identiformer.results.schema import REQUIRED_ATTRIBUTES, SCHEMA_VERSION, VARIABLES


def validate(result: xr.Dataset) -> xr.Dataset:
    """Return the result if it conforms to the schema; raise `ResultError` otherwise."""
    missing = [name for name in REQUIRED_ATTRIBUTES if name not in result.attrs]
    if missing:
        raise ResultError(f"expected a result of identiformer, but its attributes {', '.join(missing)} are missing.")
    if int(result.attrs["schema_version"]) != SCHEMA_VERSION:
        raise ResultError(
            f"expected schema version {SCHEMA_VERSION}, got {result.attrs['schema_version']}; compute the result again."
        )
    measure = result.attrs["measure"]
    if measure not in VARIABLES:
        raise ResultError(f"expected a result of one of {', '.join(VARIABLES)}, got one of {measure!r}.")
    for name, variable in result.data_vars.items():
        expected = VARIABLES[measure].get(str(name))
        if expected is None:
            raise ResultError(f"expected no variable {name!r} in a result of {measure}.")
        if variable.dims != expected:
            raise ResultError(f"expected {name!r} over {expected}, got {variable.dims}.")
    return result


def require_complete(result: xr.Dataset) -> xr.Dataset:
    """Return the result if its computation came to an end; raise `ResultError` if it was interrupted."""
    if not validate(result).attrs["complete"]:
        raise ResultError(f"expected a complete result of {result.attrs['measure']}, got an interrupted one; compute it again.")
    return result


def describe(
    result: xr.Dataset, measure: str, source: Mapping[str, str], settings: Mapping[str, Any], *, complete: bool = True
) -> xr.Dataset:
    """Record on a result its measure, model, text, settings, versions and whether it is complete, and validate it."""
    attributes = {
        "measure": measure,
        "schema_version": SCHEMA_VERSION,
        "settings": json.dumps(dict(settings), sort_keys=True),
        "complete": int(complete),
        **source,
    }
    return validate(result.assign_attrs(attributes))


def labeled(
    measure: str, arrays: Mapping[str, Any], coordinates: Mapping[str, Any], attributes: Mapping[str, Any] | None = None
) -> xr.Dataset:
    """The arrays and tensors of a measure as a Dataset, over the axes that the schema names; what is not in it is left out."""
    layout = {name: dims for name, dims in VARIABLES[measure].items() if name in arrays}
    found = {name: array.numpy(force=True) if hasattr(array, "numpy") else array for name, array in arrays.items()}
    return xr.Dataset({name: (dims, found[name]) for name, dims in layout.items()}, coordinates, attributes)


def make_result(
    measure: str,
    arrays: Mapping[str, Any],
    coordinates: Mapping[str, Any],
    source: Mapping[str, str],
    settings: Mapping[str, Any],
) -> xr.Dataset:
    """The arrays of a measure as a Dataset that records what it was computed from."""
    return describe(labeled(measure, arrays, coordinates), measure, source, settings)


def package_versions(*more: str) -> dict[str, str]:
    """Return the versions of the packages that numbers depend on, and of more packages by name."""
    return {package: version(package) for package in ("identiformer", "torch", "transformers", "numpy", *more)}
