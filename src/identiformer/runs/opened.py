"""A finished run, as a user opens it."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xarray as xr

from identiformer.errors import RunError
from identiformer.runs.finished import read_outcome
from identiformer.runs.folder import FINISHED, folder_at
from identiformer.runs.settings import Settings
from identiformer.runs.shard_file import Failure


@dataclass(frozen=True, eq=False)
class Run:
    """The results of a run by measure, its settings and its summary."""

    path: Path
    results: dict[str, xr.Dataset]
    settings: Settings
    provenance: dict[str, str]
    summary: str
    failures: tuple[Failure, ...]

    def __getitem__(self, measure: str) -> xr.Dataset:
        if measure not in self.results:
            raise RunError(f"expected one of the measures of this run ({', '.join(self.results)}), got {measure!r}.")
        return self.results[measure]

    def as_json(self) -> dict[str, Any]:
        """Settings and results as plain data; what is not defined is null."""
        found = {
            measure: {str(name): _plain(variable.values.tolist()) for name, variable in result.variables.items()}
            for measure, result in self.results.items()
        }
        return {"settings": self.settings.as_json(), "provenance": self.provenance, "results": found}

    def __repr__(self) -> str:
        return f"<identiformer run {self.path}: {', '.join(self.results)}>"


def _plain(value: Any) -> Any:
    """JSON knows no NaN."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and value != value else value


def open_run(path: str | os.PathLike[str]) -> Run:
    """Open the folder of a finished run: `run["effective_attention"]` is its Dataset, `run.summary` a page to read."""
    folder = folder_at(path)
    settings = folder.settings()
    if not (folder.path / FINISHED).is_file():
        done, own = len(folder.sound(settings)), len(settings.own_shards)
        raise RunError(f"the run in {folder.path} is not finished: {done} of {own} shards are done; go on with --resume.")
    outcome = read_outcome(folder, settings)
    return Run(folder.path, dict(outcome.results), settings, folder.provenance(), outcome.summary, tuple(outcome.failures))
