"""What a finished run consists of: results, failures and a summary, each with its hash, so that nothing can go missing."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import xarray as xr

from identiformer.errors import ResultError
from identiformer.files import read_file, write_file
from identiformer.results import content_hash, open_result
from identiformer.runs.folder import FAILURES, FINISHED, RESULTS, SUMMARY, RunFolder
from identiformer.runs.settings import Settings
from identiformer.runs.shard_file import Failure
from identiformer.typed_json import LARGEST_FILE, parse_json, read_json, typed

AGAIN = "make it again with --resume"


@dataclass(frozen=True)
class Outcome:
    """Results by measure, what failed, and the page to read."""

    results: Mapping[str, xr.Dataset]
    failures: Sequence[Failure]
    summary: str


@dataclass(frozen=True)
class Finished:
    """What finished.json holds: the hash of each result, and of the files next to them."""

    results: dict[str, str | None]
    """By measure; None for one for which every example failed."""
    failures: str
    summary: str


def source_of(settings: Settings, provenance: Mapping[str, str]) -> dict[str, str]:
    """What every result of a run says of where it came from."""
    versions = {f"{package}_version": number for package, number in settings.versions.items()}
    own = {"revision": settings.revision, "architecture": settings.architecture, "dtype": settings.dtype}
    return {"model": provenance["model"], **own, "corpus": provenance["corpus"], "corpus_hash": settings.corpus_hash, **versions}


def shown_settings(settings: Settings) -> dict[str, Any]:
    """What a result depends on. How the corpus was cut into shards is not among it."""
    return {name: getattr(settings, name) for name in ("examples", "max_length", "directions", "seed", "part")}


def write_finished(folder: RunFolder, outcome: Outcome) -> None:
    """Write failures and summary, and last, when the results are on disk, that the run is finished."""
    lines = [json.dumps(asdict(failure), ensure_ascii=False) + "\n" for failure in outcome.failures]
    failures, summary = "".join(lines).encode(errors="backslashreplace"), outcome.summary.encode()
    write_file(folder.path / FAILURES, failures)
    write_file(folder.path / SUMMARY, summary)
    results = outcome.results
    hashes = {name: content_hash(results[name]) if name in results else None for name in folder.settings().measures}
    finished = Finished(hashes, _hash(failures), _hash(summary))
    write_file(folder.path / FINISHED, json.dumps(asdict(finished), indent=2).encode())


def read_outcome(folder: RunFolder, settings: Settings) -> Outcome:
    """Read what a finished run found; anything that is missing, altered or of another run is an error."""
    finished = read_json(folder.path / FINISHED, Finished, AGAIN)
    source = source_of(settings, folder.provenance())
    expected = {**source, "settings": json.dumps(shown_settings(settings), sort_keys=True)}
    if finished.results.keys() != set(settings.measures):
        raise ResultError(f"{folder.path / FINISHED} is damaged: it does not list the measures of the run; {AGAIN}.")
    results = {}
    for name in settings.measures:
        if finished.results[name] is None:  # every example failed
            continue
        results[name] = result = open_result(folder.path / RESULTS / name)
        told = {key: result.attrs.get(key) for key in expected}
        if content_hash(result) != finished.results[name] or told != expected or result.attrs["measure"] != f"corpus_{name}":
            raise ResultError(f"expected the result of this run in {folder.path / RESULTS / name}, got another; {AGAIN}.")
    failures = _read(folder, FAILURES, finished.failures).split(b"\n")[:-1]
    summary = _read(folder, SUMMARY, finished.summary)
    try:
        return Outcome(results, tuple(typed(parse_json(line), Failure) for line in failures), summary.decode())
    except ValueError as error:
        raise ResultError(f"{folder.path / FAILURES} is damaged: {error}; {AGAIN}.") from None


def _read(folder: RunFolder, name: str, expected: str) -> bytes:
    path = folder.path / name
    try:
        content = read_file(path, LARGEST_FILE)
    except OSError as error:
        raise ResultError(f"expected to read {path}, but {error.strerror}; {AGAIN}.") from None
    if _hash(content) != expected:
        raise ResultError(f"expected {path} as the run wrote it, but it was altered; {AGAIN}.")
    return content


def _hash(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
