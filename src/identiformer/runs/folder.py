"""The folder of a run: settings, a lock, a file for each shard."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from identiformer.errors import RunError
from identiformer.files import remove_scratch
from identiformer.runs.files import disk_full_is_an_error, write_whole
from identiformer.runs.lock import LOCK, only_writer
from identiformer.runs.settings import Settings
from identiformer.runs.shard_file import ShardResult, from_bytes, to_bytes

SETTINGS, SHARDS, RESULTS, SUMMARY = "settings.json", "shards", "results.zarr", "summary.md"
FAILURES, FIGURES = "failures.jsonl", "figures"


@dataclass(frozen=True)
class RunFolder:
    """Paths and files of one run."""

    path: Path

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder for this process alone."""
        with disk_full_is_an_error(self.path):
            (self.path / SHARDS).mkdir(parents=True, exist_ok=True)
        with only_writer(self.path):
            yield

    def holds_a_run(self) -> bool:
        return (self.path / SETTINGS).is_file()

    def check_free(self) -> None:
        """Refuse a folder that holds a run, or anything else that we did not put there."""
        if self.holds_a_run():
            raise RunError(f"{self.path} holds a run already; go on with it by --resume (resume=True), or choose another folder.")
        strangers = [each.name for each in self.path.iterdir() if each.name not in (LOCK, SHARDS)] if self.path.is_dir() else []
        if strangers or self.path.is_file():
            raise RunError(f"expected a free place for a run, but {self.path} holds {strangers[0] if strangers else 'a file'}.")

    def begin(self, settings: Settings, provenance: dict[str, str]) -> None:
        """Write down what the run is, or go on with one that has the same settings."""
        remove_scratch(self.path)
        remove_scratch(self.path / SHARDS)
        if self.holds_a_run():
            settings.refuse_others(self.settings(), str(self.path))
            return
        content = json.dumps({"settings": settings.as_json(), "provenance": provenance}, indent=2, ensure_ascii=False)
        write_whole(self.path / SETTINGS, content.encode())

    def settings(self) -> Settings:
        return Settings.from_json(self._stored()["settings"])

    def provenance(self) -> dict[str, str]:
        return self._stored()["provenance"]

    def _stored(self) -> dict[str, dict]:
        if not self.holds_a_run():
            raise RunError(f"expected the folder of a run, but {self.path} has no {SETTINGS}.")
        try:
            stored = json.loads((self.path / SETTINGS).read_text(encoding="utf-8"))
            Settings.from_json(stored["settings"])
        except (ValueError, KeyError, TypeError):
            raise RunError(f"{self.path / SETTINGS} is damaged; run again in another folder.") from None
        return stored

    def shard_path(self, settings: Settings, shard: int) -> Path:
        return self.path / SHARDS / f"{settings.shard_name(shard)}.state"

    def read_shard(self, settings: Settings, shard: int) -> ShardResult | None:
        """A shard's states; None where there is no file, or not what was written."""
        try:
            return from_bytes(self.shard_path(settings, shard).read_bytes())
        except FileNotFoundError:
            return None

    def write_shard(self, settings: Settings, shard: int, result: ShardResult) -> None:
        write_whole(self.shard_path(settings, shard), to_bytes(result))

    def missing(self, settings: Settings, shards: range) -> list[int]:
        """Shards without a sound file."""
        return [shard for shard in shards if self.read_shard(settings, shard) is None]


def folder_at(path: str | os.PathLike[str]) -> RunFolder:
    """The folder of a run at a path, home directories expanded."""
    return RunFolder(Path(path).expanduser())
