"""The folder of a run: its settings, and one file per shard, with a checksum that detects truncated and misplaced files."""

import hashlib
import json
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from identiformer.errors import RunError
from identiformer.files import disk_full_as_run_error, read_file, require_creatable, write_file
from identiformer.folders import LOCK, SETTINGS, foreign_entries, locked, require_same_settings
from identiformer.measures.corpus import Failure, State
from identiformer.runs.settings import Settings
from identiformer.typed_json import parse_json, read_json, typed

FAMILY, TITLE = b"identiformer shard ", b"identiformer shard 3\n"
DIGITS = 64
"""Length of a checksum."""
LARGEST = 2**30
"""Bytes of an unpacked shard; no measure keeps more."""
NUMBERS = np.dtype("<i8")


@dataclass(frozen=True)
class ShardResult:
    """What a worker returns: the state of each measure, and the examples that failed."""

    states: dict[str, State]
    failures: tuple[Failure, ...] = ()


@dataclass(frozen=True)
class _Contents:
    """The first line of the packed bytes: the shape of each array that follows, by measure and name, and the failures."""

    shapes: dict[str, dict[str, tuple[int, ...]]]
    failures: tuple[Failure, ...]


def to_bytes(result: ShardResult, name: str) -> bytes:
    """Return a title, a checksum, and the compressed integers of all states.

    The checksum includes the name, which identifies the shard and the settings, so that no other shard can take its place.
    """
    shapes = {measure: {key: total.shape for key, total in state.totals.items()} for measure, state in result.states.items()}
    totals = (total for state in result.states.values() for total in state.totals.values())
    numbers = b"".join(np.ascontiguousarray(total, NUMBERS).tobytes() for total in totals)
    packed = zlib.compress(json.dumps(asdict(_Contents(shapes, result.failures))).encode() + b"\n" + numbers)
    return TITLE + _checksum(name, packed) + b"\n" + packed


def from_bytes(content: bytes, name: str) -> ShardResult | None:
    """Return the result; None if the bytes were not written for the shard of this name."""
    if content.startswith(FAMILY) and not content.startswith(TITLE):
        raise RunError("expected shards of this version of identiformer, got those of another version; run in another folder.")
    packed = content[len(TITLE) + DIGITS + 1 :]
    if content[: len(TITLE) + DIGITS + 1] != TITLE + _checksum(name, packed) + b"\n":
        return None
    try:
        return _unpack(packed)
    except (ValueError, zlib.error):
        return None


def _checksum(name: str, packed: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\n" + packed).hexdigest().encode()


def _unpack(packed: bytes) -> ShardResult:
    reader = zlib.decompressobj()
    first_line, _, numbers = reader.decompress(packed, LARGEST).partition(b"\n")
    if not reader.eof:
        raise ValueError("expected a complete shard")
    contents = typed(parse_json(first_line), _Contents)
    totals: dict[str, dict[str, np.ndarray]] = {measure: {} for measure in contents.shapes}
    for measure, shapes in contents.shapes.items():
        for name, shape in shapes.items():
            size = prod(shape) * NUMBERS.itemsize
            if min(shape, default=0) < 0 or size > len(numbers):
                raise ValueError("expected the arrays listed in the first line")
            totals[measure][name] = np.frombuffer(numbers[:size], NUMBERS).astype(np.int64).reshape(shape)
            numbers = numbers[size:]
    if numbers:
        raise ValueError("expected no bytes after the last array")
    return ShardResult({measure: State(arrays) for measure, arrays in totals.items()}, contents.failures)


SHARDS, RESULTS, SUMMARY = "shards", "results.zarr", "summary.md"
FAILURES, FIGURES, FINISHED = "failures.jsonl", "figures", "finished.json"
FOLDERS, FILES = (SHARDS, RESULTS, FIGURES), (SETTINGS, SUMMARY, FAILURES, FINISHED, LOCK)
STATE = ".state"
"""Suffix of the file of a shard."""
FORMAT = 4
ELSEWHERE = "run again in another folder"


@dataclass(frozen=True)
class Stored:
    """The content of settings.json."""

    format: int
    settings: Settings
    provenance: dict[str, str]
    """What does not change a result but helps to trace it: names of model and corpus, Python, machine."""

    def __post_init__(self) -> None:
        if not {"model", "corpus"} <= self.provenance.keys():
            raise ValueError("expected the names of the model and the corpus in provenance")

    def as_json(self) -> dict[str, Any]:
        """The content as plain data."""
        return {**asdict(self), "settings": self.settings.as_json()}


@contextmanager
def _named_on_failure(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RunError(f"expected to create the folder {path}, but {error.strerror}; choose another.") from None


@dataclass(frozen=True)
class RunFolder:
    """The files of one run."""

    path: Path

    @classmethod
    def at(cls, path: str | os.PathLike[str]) -> "RunFolder":
        """The folder at a path, in which ~ is the user's home."""
        return cls(Path(path).expanduser())

    def holds_run(self) -> bool:
        """Whether there are settings of a run, finished or not."""
        return os.path.isfile(self.path / SETTINGS)  # unlike Path.is_file, False for a name that is too long

    def check(self, *, resume: bool) -> None:
        """Raise unless the folder is free and can be written to, or holds a run to continue."""
        if self.holds_run():
            if resume:
                return
            raise RunError(f"{self.path} holds a run already; continue it with --resume (resume=True), or choose another folder.")
        shards = self.path / SHARDS
        names = os.listdir(shards) if os.path.isdir(shards) else []  # unlike Path.is_dir, False for a name that is too long
        unknown = [name for name in names if not name.endswith(STATE)]
        if foreign := sorted((*foreign_entries(self.path, (SHARDS,)), *(f"{SHARDS}/{name}" for name in unknown))):
            raise RunError(f"expected a free folder for a run, but {self.path} holds {foreign[0]}; choose another folder.")
        with _named_on_failure(self.path):
            require_creatable(self.path)

    @contextmanager
    def started(self, settings: Settings, provenance: dict[str, str]) -> Iterator[None]:
        """Hold the folder for this process, and write the settings of a new run; those of an earlier one must be the same."""
        self._check_types()
        with _named_on_failure(self.path):
            (self.path / SHARDS).mkdir(parents=True, exist_ok=True)
        kept = "all finished shards are kept, so make room and continue with --resume"
        with disk_full_as_run_error(self.path, kept), locked(self.path, SHARDS):
            if self.holds_run():
                require_same_settings(self.stored().settings.as_json(), settings.as_json(), self.path)
            else:
                content = json.dumps(Stored(FORMAT, settings, provenance).as_json(), indent=2, ensure_ascii=False)
                write_file(self.path / SETTINGS, content.encode())
            yield

    def _check_types(self) -> None:
        """Raise if a file has the name of one of our folders or the reverse, or is a link, which could lead anywhere."""
        for name in (*FOLDERS, *FILES):
            path = self.path / name
            if os.path.lexists(path) and (path.is_symlink() or not (path.is_dir() if name in FOLDERS else path.is_file())):
                expected = "folder" if name in FOLDERS else "file"
                raise RunError(f"expected {path} to be a {expected} of the run, got something else; remove it, or {ELSEWHERE}.")

    def stored(self) -> Stored:
        """Read the settings and the provenance."""
        path = self.path / SETTINGS
        if not self.holds_run():
            raise RunError(f"expected the folder of a run, but {self.path} has no {SETTINGS}.")
        version = read_json(path, dict[str, Any], ELSEWHERE).get("format")
        if version != FORMAT:
            raise RunError(f"expected a run of this version, but {path} is of another version, or not of a run; {ELSEWHERE}.")
        return read_json(path, Stored, ELSEWHERE)

    def _shard_path(self, settings: Settings, shard: int) -> Path:
        return self.path / SHARDS / f"{settings.shard_name(shard)}{STATE}"

    def read_shard(self, settings: Settings, shard: int) -> ShardResult | None:
        """Read a shard; None if its file is missing or damaged, or belongs to another shard."""
        path = self._shard_path(settings, shard)
        try:
            result = from_bytes(read_file(path, LARGEST), settings.shard_name(shard))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise RunError(f"expected to read {path}, but {error.strerror}; remove it and continue with --resume.") from None
        if result is None or tuple(result.states) != settings.measures:
            return None
        examples = settings.examples_in(shard)
        return result if all(failure.example in examples for failure in result.failures) else None

    def write_shard(self, settings: Settings, shard: int, result: ShardResult) -> None:
        write_file(self._shard_path(settings, shard), to_bytes(result, settings.shard_name(shard)))

    def how_to_continue(self, settings: Settings) -> str:
        """How many shards are finished, by their files, and how to compute the rest."""
        shards = settings.part_shards
        finished = sum(self._shard_path(settings, shard).is_file() for shard in shards)
        return f"{finished} of {len(shards)} shards are finished and kept in {self.path}, so continue with --resume"

    def valid_shards(self, settings: Settings) -> list[int]:
        """The shards that can be read, found by their file names: damaged settings may claim any number of shards."""
        names = (path.name.partition("-")[0] for path in sorted((self.path / SHARDS).glob(f"*-*{STATE}")))
        numbers = dict.fromkeys(int(name) for name in names if name.isdecimal() and len(name) < 19)
        return [number for number in numbers if number in settings.part_shards and self.read_shard(settings, number)]
