"""Results on disk as Zarr, with a hash of their content: an incomplete or altered one is never read."""

import hashlib
import json
import math
import os
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import xarray as xr

from identiformer.errors import ResultError
from identiformer.files import atomic, require_regular
from identiformer.results.validation import require_complete
from identiformer.typed_json import read_json

HASH = "content_hash"
ZSTD = b"\x28\xb5\x2f\xfd"
"""First bytes of a frame of Zstandard, with which Zarr compresses."""
MOST_DESCRIPTION, MOST_TEXT = 2**24, 2**28
"""Bytes of the metadata of a result, and of text in one of its arrays."""


def save_result(result: xr.Dataset, path: str | os.PathLike[str]) -> Path:
    """Write a result to a Zarr folder, replacing an older result there.

    Parameters
    ----------
    result : xarray.Dataset
        The result of any measure.
    path : path
        The folder to write; anything there but an older result is an error.

    Returns
    -------
    pathlib.Path
        The folder.

    Examples
    --------
    >>> import tempfile
    >>> import identiformer as idf
    >>> result = idf.effective_attention(idf.load("minilm").trace("He said that the pie was his."))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     idf.open_result(idf.save_result(result, f"{folder}/result.zarr")).identical(result)
    True
    """
    target = Path(path)
    _require_json(require_complete(result))
    if target.exists() and not (target / "zarr.json").is_file():
        raise ResultError(f"expected a new path or an older result, but {target} holds something else; choose another path.")
    target.parent.mkdir(parents=True, exist_ok=True)
    # Without the encoding of files that its arrays come from, such as another compression.
    plain = result.drop_encoding().assign_attrs({HASH: content_hash(result)})
    # Zarr writes in a thread of its own, even after an interruption: the executor waits for it before the folder is removed.
    with atomic(target) as temporary, _without_text_warnings(), ThreadPoolExecutor(1) as executor:
        executor.submit(int).result()  # starts its thread: one that is interrupted at its start would not be waited for
        executor.submit(plain.to_zarr, temporary, consolidated=False, zarr_format=3).result()
    return target


def _require_json(result: xr.Dataset) -> None:
    """Reject attributes that JSON, and so Zarr, cannot hold, and objects other than text."""
    for attributes in (result.attrs, *(variable.attrs for variable in result.variables.values())):
        for name, value in attributes.items():
            try:
                json.dumps(value.tolist() if isinstance(value, np.ndarray | np.generic) else value, sort_keys=True)
            except (TypeError, ValueError, RecursionError):
                raise ResultError(
                    f"expected attributes of text, numbers, lists and mappings in a result, got {name!r}, of type "
                    f"{type(value).__name__}, which cannot be written; remove or convert it."
                ) from None
    for name, variable in result.variables.items():
        if variable.dtype == object and not all(isinstance(value, str) for value in variable.values.flat):
            raise ResultError(f"expected numbers or text in a result, got other objects in {name!r}; remove or convert them.")


def open_result(path: str | os.PathLike[str]) -> xr.Dataset:
    """Read a result from a Zarr folder that `save_result` wrote.

    Parameters
    ----------
    path : path
        The folder.

    Returns
    -------
    xarray.Dataset
        The result, identical to the one saved; an incomplete or altered one raises `ResultError`.
    """
    source = Path(path)
    if not (source / "zarr.json").is_file():
        raise ResultError(f"expected a folder with a result (zarr.json), got {source}.")
    try:
        with _without_text_warnings():
            _require_room(source)
            stored = require_complete(xr.open_zarr(source, consolidated=False, chunks=None, zarr_format=3).load())
    except ResultError:
        raise
    except (Exception, RecursionError) as error:
        raise ResultError(f"the result in {source} is damaged ({type(error).__name__}); make it again.") from error
    result = stored.assign_attrs()
    if result.attrs.pop(HASH, None) != content_hash(result):
        raise ResultError(f"the result in {source} is damaged: some of its numbers are missing or altered; make it again.")
    return result


def _require_room(source: Path) -> None:
    """Reject pipes and devices, and arrays larger than the memory, before anything is read or allocated."""
    import zarr

    stored = {path: require_regular(path).st_size for path in source.rglob("*") if not path.is_dir()}
    oversized = [path for path, size in stored.items() if path.name == "zarr.json" and size > MOST_DESCRIPTION]
    if oversized:
        raise ResultError(f"the result in {source} is damaged: {oversized[0].relative_to(source)} is too large; make it again.")
    # One after the other: of a group with several damaged arrays, Zarr would print all errors but the first.
    about = read_json(source / "zarr.json", dict[str, Any], "make it again")
    if (about.get("zarr_format"), about.get("node_type")) != (3, "group"):
        raise ResultError(f"the result in {source} is damaged: its zarr.json does not describe a group; make it again.")
    folders = [path for path in sorted(source.iterdir()) if path.is_dir()]
    arrays = [zarr.open_array(path, mode="r", zarr_format=3) for path in folders]
    size = sum(max(array.nbytes, math.prod(array.chunks) * array.dtype.itemsize) for array in arrays)
    if sum(stored.values()) > 2 * size + MOST_DESCRIPTION:  # compression never adds much
        raise ResultError(f"the result in {source} is damaged: its files are larger than its numbers; make it again.")
    for path, array in zip(folders, arrays, strict=True):
        if _holds_more(array, [chunk for chunk in stored if chunk.is_relative_to(path / "c")]):
            raise ResultError(f"the result in {source} is damaged: {path.name} holds more than its numbers; make it again.")
    # Windows has no sysconf; there, numpy raises when it cannot allocate.
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else math.inf
    if size > memory:
        raise ResultError(
            f"expected a result of at most {memory / 2**30:.0f} GiB, the memory of this machine, but that in {source} claims "
            f"{size / 2**30:.0f} GiB; make it again, or open it where there is more memory."
        )


def _holds_more(array: Any, chunks: list[Path]) -> bool:
    """Whether chunks are not compressed as `save_result` compresses them, or hold more than theirs of the numbers of an array."""
    codecs, sizes = [codec.to_dict()["name"] for codec in array.metadata.codecs], [_decompressed(chunk) for chunk in chunks]
    if codecs == ["vlen-utf8", "zstd"]:
        return sum(sizes) > MOST_TEXT
    return codecs != ["bytes", "zstd"] or max(sizes, default=0) > math.prod(array.chunks) * array.dtype.itemsize


def _decompressed(chunk: Path) -> int:
    """How many bytes a chunk says that it holds (RFC 8878, section 3.1.1).

    2**64, more than any, if it does not say so, or is not a single frame: a second one would be decompressed, too.
    """
    with chunk.open("rb") as file:
        header = file.read(18)
        if len(header) < 7 or not header.startswith(ZSTD):
            return 2**64
        flags = header[4]
        single, checksum = flags >> 5 & 1, flags >> 2 & 1  # with a single segment there is no byte for the size of the window
        start, count = 6 - single + (0, 1, 2, 4)[flags & 3], (single, 2, 4, 8)[flags >> 6]
        size = int.from_bytes(header[start : start + count], "little") + 256 * (count == 2)
        if count and _end_of_blocks(file, start + count, size) + 4 * checksum == chunk.stat().st_size:
            return size
        return 2**64


def _end_of_blocks(file: BinaryIO, position: int, size: int) -> int:
    """Where the blocks of a frame end, which hold this many bytes in total; -1 if it has far more of them than that needs."""
    for _ in range(1024 + size // 256):
        file.seek(position)
        block = int.from_bytes(file.read(3), "little")
        last, repeated, stored = block & 1, block >> 1 & 3 == 1, block >> 3
        position += 3 + (1 if repeated else stored)
        if last:
            return position
    return -1


@contextmanager
def _without_text_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*(fixed_length_utf32|FixedLengthUTF32|Zarr V3 specification).*")
        yield


def content_hash(result: xr.Dataset) -> str:
    """Hash every variable, coordinate and attribute of a result.

    Zarr silently fills a missing chunk with zeros or NaN, so only a hash of the numbers shows that all are there.
    """
    digest = hashlib.sha256(_json(dict(result.attrs)))
    for name in sorted(map(str, result.variables)):
        variable = result.variables[name]
        values = np.asarray(variable.values)
        if values.dtype.kind in "OUT":  # stores differ in the type of text
            dtype, content = "text", _json(values.astype(object).tolist())
        else:
            plain = values.astype(values.dtype.newbyteorder("<"))
            if plain.dtype.kind == "f":
                plain = np.where(np.isnan(plain), plain.dtype.type(np.nan), plain)  # NaN has many bit patterns; Zarr keeps one
            dtype, content = plain.dtype.str, plain.tobytes()
        digest.update(_json([name, list(map(str, variable.dims)), list(values.shape), dtype, len(content)]) + content)
    return f"sha256:{digest.hexdigest()}"


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, default=lambda other: np.asarray(other).tolist()).encode()
