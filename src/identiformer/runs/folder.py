"""The folder of a run: settings, a lock, a file for each shard."""

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from identiformer.errors import RunError
from identiformer.files import disk_full_as_run_error, read_file, write_file
from identiformer.folders import LOCK, SETTINGS, foreign_entries, locked, require_same_settings
from identiformer.runs.settings import Settings
from identiformer.runs.shard_file import LARGEST, ShardResult, from_bytes, to_bytes
from identiformer.typed_json import read_json

SHARDS, RESULTS, SUMMARY = "shards", "results.zarr", "summary.md"
FAILURES, FIGURES, FINISHED = "failures.jsonl", "figures", "finished.json"
FOLDERS, FILES = (SHARDS, RESULTS, FIGURES), (SETTINGS, SUMMARY, FAILURES, FINISHED, LOCK)
STATE = ".state"
"""How the name of a shard's file ends."""
FORMAT = 2
ELSEWHERE = "run again in another folder"


@dataclass(frozen=True)
class Stored:
    """What settings.json holds."""

    format: int
    settings: Settings
    provenance: dict[str, str]

    def __post_init__(self) -> None:
        if not {"model", "corpus"} <= self.provenance.keys():
            raise ValueError("expected the names of the model and the corpus in provenance")


@dataclass(frozen=True)
class RunFolder:
    """Paths and files of one run."""

    path: Path

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder for this process alone."""
        self._check_kinds()
        with disk_full_as_run_error(self.path, "all finished shards are kept, so make room and continue with --resume"):
            try:
                (self.path / SHARDS).mkdir(parents=True, exist_ok=True)
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.EDQUOT):
                    raise
                raise RunError(
                    f"expected to create the folder {self.path} for the run, but {error.strerror}; choose another."
                ) from None
            with locked(self.path, SHARDS):
                yield

    def holds_a_run(self) -> bool:
        return os.path.isfile(self.path / SETTINGS)  # unlike Path.is_file, also where a name is too long

    def check_free(self) -> None:
        """Reject a folder that holds a run, or anything else that we did not put there."""
        if self.holds_a_run():
            raise RunError(f"{self.path} holds a run already; go on with it by --resume (resume=True), or choose another folder.")
        if strange := self._strangers():
            raise RunError(f"expected a free place for a run, but {self.path} holds {strange[0]}; choose another folder.")

    def check_resumable(self) -> None:
        """Reject a folder that holds neither a run nor the beginnings of one, unless it is free."""
        if not self.holds_a_run():
            self.check_free()

    def _strangers(self) -> list[str]:
        """What is in the place of the folder, apart from the beginnings of a run that was stopped before it had settings."""
        shards = self.path / SHARDS
        inside = [entry.name for entry in shards.iterdir() if not entry.name.endswith(STATE)] if shards.is_dir() else []
        return sorted((*foreign_entries(self.path, (SHARDS,)), *(f"{SHARDS}/{name}" for name in inside)))

    def _check_kinds(self) -> None:
        """Reject a folder in which something else has the name of one of our files or folders; links could lead anywhere."""
        for name in (*FOLDERS, *FILES):
            path = self.path / name
            if os.path.lexists(path) and (path.is_symlink() or not (path.is_dir() if name in FOLDERS else path.is_file())):
                kind = "folder" if name in FOLDERS else "file"
                raise RunError(f"expected {path} to be a {kind} of the run, got something else; remove it, or {ELSEWHERE}.")

    def begin(self, settings: Settings, provenance: dict[str, str]) -> None:
        """Write down what the run is, or go on with one that has the same settings."""
        if self.holds_a_run():
            require_same_settings(self.settings().as_json(), settings.as_json(), self.path)
            return
        content = json.dumps(asdict(Stored(FORMAT, settings, provenance)), indent=2, ensure_ascii=False)
        write_file(self.path / SETTINGS, content.encode())

    def settings(self) -> Settings:
        return self._stored().settings

    def provenance(self) -> dict[str, str]:
        return self._stored().provenance

    def _stored(self) -> Stored:
        path = self.path / SETTINGS
        if not self.holds_a_run():
            raise RunError(f"expected the folder of a run, but {self.path} has no {SETTINGS}.")
        version = read_json(path, dict[str, Any], ELSEWHERE).get("format")
        if version != FORMAT:
            raise RunError(
                f"expected a run as this version of identiformer writes it, but {path} is of another version, or of something "
                f"else; {ELSEWHERE}."
            )
        return read_json(path, Stored, ELSEWHERE)

    def shard_path(self, settings: Settings, shard: int) -> Path:
        return self.path / SHARDS / f"{settings.shard_name(shard)}{STATE}"

    def read_shard(self, settings: Settings, shard: int) -> ShardResult | None:
        """A shard's states; None where there is no file, or not what was written there."""
        path = self.shard_path(settings, shard)
        try:
            found = from_bytes(read_file(path, LARGEST), settings.shard_name(shard))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise RunError(
                f"expected to read the shard {path}, but {error.strerror}; remove it and go on with --resume."
            ) from None
        return found if found is None or self._belongs(found, settings, shard) else None

    @staticmethod
    def _belongs(found: ShardResult, settings: Settings, shard: int) -> bool:
        first = shard * settings.shard_size
        examples = range(first, first + settings.examples_in(shard))
        return tuple(found.states) == settings.measures and all(each.example in examples for each in found.failures)

    def write_shard(self, settings: Settings, shard: int, result: ShardResult) -> None:
        write_file(self.shard_path(settings, shard), to_bytes(result, settings.shard_name(shard)))

    def missing(self, settings: Settings, shards: range) -> list[int]:
        """Shards without a sound file."""
        return [shard for shard in shards if self.read_shard(settings, shard) is None]

    def sound(self, settings: Settings) -> list[int]:
        """Shards with a sound file, found by the names of files: settings that were tampered with may claim any number."""
        names = (path.name.partition("-")[0] for path in sorted((self.path / SHARDS).glob(f"*-*{STATE}")))
        numbers = [int(name) for name in names if name.isdecimal() and len(name) < 19]
        own = settings.own_shards
        return [number for number in dict.fromkeys(numbers) if number in own and self.read_shard(settings, number)]


def folder_at(path: str | os.PathLike[str]) -> RunFolder:
    """The folder of a run at a path, home directories expanded."""
    return RunFolder(Path(path).expanduser())
