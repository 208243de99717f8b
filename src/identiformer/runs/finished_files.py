"""The files of a finished run, checked by their hashes, without torch and xarray, so that a summary is printed at once."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from identiformer.errors import ResultError, RunError
from identiformer.files import read_file
from identiformer.runs.folder import FAILURES, FINISHED, RESULTS, SUMMARY, RunFolder, Stored
from identiformer.typed_json import LARGEST_FILE, read_json

AGAIN = "make it again with --resume"


@dataclass(frozen=True)
class Finished:
    """The content of finished.json: the hash of the files of each result, and of the failures and the summary."""

    results: dict[str, str | None]
    """By measure; None for a measure that failed on every example."""
    failures: str
    summary: str


@dataclass(frozen=True)
class Checked:
    """A finished run whose files are all there, as the run wrote them."""

    stored: Stored
    measures: tuple[str, ...]
    """Those with results."""
    failures: bytes
    summary: str


def read_finished(folder: RunFolder) -> Checked:
    """Read a run without its numbers; raises unless it is finished, and every file of it is as the run wrote it."""
    stored = folder.stored()
    if not (folder.path / FINISHED).is_file():
        done, total = len(folder.valid_shards(stored.settings)), len(stored.settings.part_shards)
        raise RunError(f"the run in {folder.path} is not finished: {done} of {total} shards are done; continue with --resume.")
    finished = read_json(folder.path / FINISHED, Finished, AGAIN)
    if finished.results.keys() != set(stored.settings.measures):
        raise ResultError(f"{folder.path / FINISHED} is damaged: it does not list the measures of the run; {AGAIN}.")
    measures = tuple(name for name in stored.settings.measures if finished.results[name] is not None)
    for name in measures:
        if hash_of_files(folder.path / RESULTS / name) != finished.results[name]:
            raise ResultError(
                f"expected {folder.path / RESULTS / name} as the run wrote it, but files in it are missing or altered; {AGAIN}."
            )
        # As `open_result` does.
        attributes = read_json(folder.path / RESULTS / name / "zarr.json", dict[str, Any], AGAIN).get("attributes")
        if not (isinstance(attributes, dict) and attributes.get("complete")):
            raise ResultError(f"expected a complete result in {folder.path / RESULTS / name}, got an interrupted one; {AGAIN}.")
    failures = _read_hashed(folder.path / FAILURES, finished.failures)
    return Checked(stored, measures, failures, _read_hashed(folder.path / SUMMARY, finished.summary).decode(errors="replace"))


def _read_hashed(path: Path, expected_hash: str) -> bytes:
    """Read a file of a finished run; raises unless it is as the run wrote it."""
    content = _read(path)
    if hash_of(content) != expected_hash:
        raise ResultError(f"expected {path} as the run wrote it, but it was altered; {AGAIN}.")
    return content


def _read(path: Path) -> bytes:
    try:
        return read_file(path, LARGEST_FILE)
    except OSError as error:
        raise ResultError(f"expected to read {path}, but {error.strerror}; {AGAIN}.") from None


def hash_of(content: bytes) -> str:
    """Hash a file as finished.json lists it."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def hash_of_files(folder: Path) -> str:
    """Hash the names and contents of all files below a folder, as finished.json lists a result."""
    files = sorted((path.relative_to(folder).as_posix(), path) for path in folder.rglob("*") if not path.is_dir())
    return hash_of("".join(f"{hash_of(_read(path))} {name}\n" for name, path in files).encode(errors="surrogateescape"))
