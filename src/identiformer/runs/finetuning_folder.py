"""The folder of a fine-tuning: settings, checkpoints while it lasts, then a model and its scores."""

import json
import shutil
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from identiformer.files import publish, temporary_path, write_file
from identiformer.finetuning.training import Trained
from identiformer.folders import ResumableFolder
from identiformer.typed_json import read_json

CHECKPOINTS, CONFIG, SCORES = "checkpoints", "config.json", "scores.json"


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
        """Raise unless the folder is free or holds a fine-tuning."""
        self._resumable.check()

    @property
    def _resumable(self) -> ResumableFolder:
        return ResumableFolder(self.path, "finetuning")

    def begun(self, settings: Mapping[str, Any]) -> AbstractContextManager[None]:
        """Hold the folder for this process, and write its settings, or continue a fine-tuning of the same settings."""
        return self._resumable.started(settings)

    def finish(self, trained: Trained, scores: Mapping[str, float]) -> None:
        """Write the model, then the scores, which say that all is there."""
        temporary = temporary_path(self.path / CONFIG)
        trained.save(temporary)
        # Without its configuration a folder is not a model: that comes last.
        for file in sorted(temporary.iterdir(), key=lambda path: path.name == CONFIG):
            publish(file, self.path / file.name)
        temporary.rmdir()
        write_file(self.path / SCORES, json.dumps(scores, indent=2).encode())

    def clear(self) -> None:
        """Remove what only an unfinished fine-tuning needs."""
        shutil.rmtree(self.checkpoints, ignore_errors=True)
