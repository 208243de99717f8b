"""The list of the files of a finished run. It is read without torch and xarray, so that a summary is printed at once."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from identiformer.errors import ResultError, RunError
from identiformer.files import read_file
from identiformer.runs.folder import FINISHED, SUMMARY, RunFolder, Stored
from identiformer.typed_json import LARGEST_FILE, read_json

AGAIN = "make it again with --resume"


@dataclass(frozen=True)
class Finished:
    """The content of finished.json: the hash of each result, and of the failures and the summary."""

    results: dict[str, str | None]
    """By measure; None for a measure that failed on every example."""
    failures: str
    summary: str


def read_finished(folder: RunFolder) -> tuple[Stored, Finished]:
    """The settings of a run and the list of its files; raises if it is not finished."""
    stored = folder.stored()
    if not (folder.path / FINISHED).is_file():
        done, total = len(folder.valid_shards(stored.settings)), len(stored.settings.part_shards)
        raise RunError(f"the run in {folder.path} is not finished: {done} of {total} shards are done; continue with --resume.")
    return stored, read_json(folder.path / FINISHED, Finished, AGAIN)


def read_summary(path: str | os.PathLike[str]) -> str:
    """The summary of a finished run, without its results, so that it is there at once."""
    folder = RunFolder.at(path)
    _, finished = read_finished(folder)
    return read_hashed(folder.path / SUMMARY, finished.summary).decode()


def read_hashed(path: Path, expected_hash: str) -> bytes:
    """Read a file of a finished run; raises unless it is as the run wrote it."""
    try:
        content = read_file(path, LARGEST_FILE)
    except OSError as error:
        raise ResultError(f"expected to read {path}, but {error.strerror}; {AGAIN}.") from None
    if hash_of(content) != expected_hash:
        raise ResultError(f"expected {path} as the run wrote it, but it was altered; {AGAIN}.")
    return content


def hash_of(content: bytes) -> str:
    """Hash a file as finished.json lists it."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
