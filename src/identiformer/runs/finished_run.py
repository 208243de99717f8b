"""A finished run: its results, failures and summary, each checked against the hash in finished.json."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xarray as xr

from identiformer.errors import ResultError, RunError
from identiformer.measures.corpus import Failure
from identiformer.results import open_result
from identiformer.runs.finished_files import AGAIN, read_finished
from identiformer.runs.folder import FAILURES, RESULTS, RunFolder, Stored
from identiformer.runs.settings import Settings
from identiformer.typed_json import finite_or_null, parse_json, typed


@dataclass(frozen=True, eq=False)
class Run:
    """A finished run; `run["effective_attention"]` is the Dataset of a measure.

    Attributes
    ----------
    path : Path
        The folder of the run.
    results : dict of str to Dataset
        The results by measure.
    settings : Settings
        Everything that the results depend on.
    provenance : dict of str to str
        Names of the model and the corpus, versions of Python and of the machine.
    summary : str
        The results as a page of Markdown.
    failures : tuple of Failure
        The examples that failed, with the error of each.
    """

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
        """Return settings and results as plain data, with null for undefined numbers."""
        results = {
            measure: {str(name): finite_or_null(variable.values.tolist()) for name, variable in result.variables.items()}
            for measure, result in self.results.items()
        }
        return {"settings": self.settings.as_json(), "provenance": self.provenance, "results": results}

    def __repr__(self) -> str:
        return f"<identiformer run {self.path}: {', '.join(self.results)}>"


def open_run(path: str | os.PathLike[str]) -> Run:
    """Open the folder of a finished run.

    Raises an error if the run is not finished, or if any of its files is missing or altered.

    Parameters
    ----------
    path : str or path
        The folder of a run, the `out` of `run` or `merge_runs`.

    Returns
    -------
    Run
    """
    folder = RunFolder.at(path)
    checked = read_finished(folder)
    stored = checked.stored
    results = {name: _read_result(folder.path / RESULTS / name, stored) for name in checked.measures}
    try:
        failures = tuple(typed(parse_json(line), Failure) for line in checked.failures.split(b"\n")[:-1])
    except ValueError as error:
        raise ResultError(f"{folder.path / FAILURES} is damaged: {error}; {AGAIN}.") from None
    return Run(folder.path, results, stored.settings, stored.provenance, checked.summary, failures)


def _read_result(path: Path, stored: Stored) -> xr.Dataset:
    """The result of one measure; raises unless it is that of a run with these settings."""
    settings, result = stored.settings, open_result(path)
    expected = {**settings.source(stored.provenance), "settings": json.dumps(settings.of_results(), sort_keys=True)}
    expected["measure"] = f"corpus_{path.name}"
    if {key: result.attrs.get(key) for key in expected} != expected:
        raise ResultError(f"expected the result of this run in {path}, got another; {AGAIN}.")
    return result
