"""The folder of a fine-tuning: settings, checkpoints while it lasts, then a model and its scores."""

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from identiformer.errors import ResultError, RunError
from identiformer.files import LOCK, SCRATCH, only_writer, remove_scratch
from identiformer.finetuning.training import Trained
from identiformer.runs.files import write_whole
from identiformer.runs.settings import refuse_differences
from identiformer.typed_json import read_json

SETTINGS, CHECKPOINTS, CONFIG, SCORES = "settings.json", "checkpoints", "config.json", "scores.json"
KIND = "finetuning"


@dataclass(frozen=True)
class FinetuningFolder:
    """Paths and files of one fine-tuning."""

    path: Path

    @property
    def checkpoints(self) -> Path:
        return self.path / CHECKPOINTS

    @property
    def scores(self) -> dict[str, float] | None:
        """What a finished fine-tuning reached; None before it is finished."""
        path = self.path / SCORES
        return read_json(path, dict[str, float], "remove it and run the same command again") if path.is_file() else None

    def check(self) -> None:
        """Refuse a place that holds anything but a fine-tuning."""
        if self.path.is_dir():
            there = sorted(each.name for each in self.path.iterdir() if each.name != LOCK and not each.name.startswith(SCRATCH))
            if not there or self._stored() is not None:
                return
            what = there[0]
        elif self.path.exists():
            what = "a file"
        else:
            return
        raise RunError(f"expected a free place, or a fine-tuning to go on with, but {self.path} holds {what}.")

    def _stored(self) -> dict[str, Any] | None:
        try:
            return read_json(self.path / SETTINGS, dict[str, dict[str, Any]], "fine-tune in another folder")[KIND]
        except (ResultError, KeyError):
            return None

    @contextmanager
    def begun(self, settings: Mapping[str, Any]) -> Iterator[None]:
        """Hold the folder for this process, and write down what is done in it, or go on with what has the same settings."""
        self.path.mkdir(parents=True, exist_ok=True)
        with only_writer(self.path):
            remove_scratch(self.path)
            stored = self._stored()
            if stored is None:
                write_whole(self.path / SETTINGS, json.dumps({KIND: settings}, indent=2, ensure_ascii=False).encode())
            else:
                refuse_differences(stored, settings, str(self.path))
            yield

    def finish(self, trained: Trained, scores: Mapping[str, float]) -> None:
        """Write the model, then the scores, which say that all is there."""
        scratch = self.path / f"{SCRATCH}model"
        trained.save(scratch)
        # Without its configuration a folder is no model: that comes last.
        for file in sorted(scratch.iterdir(), key=lambda path: path.name == CONFIG):
            file.rename(self.path / file.name)
        scratch.rmdir()
        write_whole(self.path / SCORES, json.dumps(scores, indent=2).encode())

    def clear(self) -> None:
        """Remove what only an unfinished fine-tuning needs."""
        shutil.rmtree(self.checkpoints, ignore_errors=True)
