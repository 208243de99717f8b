"""Results on disk, as Zarr: written whole or not at all."""

import os
import shutil
import tempfile
import warnings
from pathlib import Path

import xarray as xr

from identiformer.errors import ResultError
from identiformer.results.schema import validate


def save_result(result: xr.Dataset, path: str | os.PathLike[str]) -> Path:
    """Write a result to a Zarr folder, in place of an older result there; anything else there is refused."""
    target = Path(path)
    validate(result)
    if target.exists() and not (target / "zarr.json").is_file():
        raise ResultError(f"expected a free place or an older result, but {target} holds something else; choose another path.")
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*(fixed_length_utf32|FixedLengthUTF32|Zarr V3 specification).*")
            result.to_zarr(scratch / "new", consolidated=False, zarr_format=3)
        if target.exists():
            target.rename(scratch / "old")
        (scratch / "new").rename(target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return target


def open_result(path: str | os.PathLike[str]) -> xr.Dataset:
    """Read a result from a Zarr folder."""
    source = Path(path)
    if not (source / "zarr.json").is_file():
        raise ResultError(f"expected a folder with a result (zarr.json), got {source}.")
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*(fixed_length_utf32|FixedLengthUTF32|Zarr V3 specification).*")
            return validate(xr.open_zarr(source, consolidated=False, chunks=None).load())
    except ResultError:
        raise
    except Exception as error:
        raise ResultError(f"the result in {source} is damaged ({type(error).__name__}); make it anew.") from error
