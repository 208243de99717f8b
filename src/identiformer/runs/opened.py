"""A finished run, as a user opens it."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xarray as xr

from identiformer.errors import RunError
from identiformer.runs.folder import FAILURES, SUMMARY, folder_at
from identiformer.runs.results import read_results
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


def _failures(path: Path) -> tuple[Failure, ...]:
    lines = (path / FAILURES).read_text(encoding="utf-8").splitlines()
    return tuple(Failure(**json.loads(line)) for line in lines)


def open_run(path: str | os.PathLike[str]) -> Run:
    """Open the folder of a finished run: `run["effective_attention"]` is its Dataset, `run.summary` a page to read."""
    folder = folder_at(path)
    settings = folder.settings()
    summary = folder.path / SUMMARY
    if not summary.is_file():
        missing, own = len(folder.missing(settings, settings.own_shards)), len(settings.own_shards)
        raise RunError(
            f"the run in {folder.path} is not finished: {own - missing} of {own} shards are done; go on with --resume."
        )
    results = read_results(folder.path, settings.measures)
    return Run(folder.path, results, settings, folder.provenance(), summary.read_text(encoding="utf-8"), _failures(folder.path))
