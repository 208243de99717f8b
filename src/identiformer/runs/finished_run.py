"""A finished run: from shards to results, figures and a summary, each checked against its hash when the run is opened."""

import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import xarray as xr

from identiformer.errors import InputError, ResultError, RunError
from identiformer.files import write_file
from identiformer.folders import require_same_settings
from identiformer.measures.corpus import Failure, State
from identiformer.results import describe, open_result, save_result
from identiformer.runs.finished_files import AGAIN, Finished, hash_of, hash_of_files, read_finished
from identiformer.runs.folder import FAILURES, FIGURES, FINISHED, RESULTS, SUMMARY, RunFolder, ShardResult, Stored
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


def merge_runs(parts: Sequence[str | os.PathLike[str]], out: str | os.PathLike[str]) -> Run:
    """Merge the parts of a run that were computed separately; the results are bit-identical to those of one run.

    Parameters
    ----------
    parts : sequence of str or path
        The folders of runs with `part="1/N"` to `part="N/N"`, in any order. Their other settings must be the same, and
        together they must hold every shard.
    out : str or path
        A new folder for the merged run.

    Returns
    -------
    Run
    """
    if not parts:
        raise InputError("expected the folders of parts to merge, got none.")
    folders = [RunFolder.at(part) for part in parts]
    stored = [folder.stored() for folder in folders]
    settings, target = replace(stored[0].settings, part="1/1"), RunFolder.at(out)
    for other in stored[1:]:
        require_same_settings(settings.as_json(), replace(other.settings, part="1/1").as_json(), folders[0].path)
    target.check(resume=False)
    sources = {shard: one for one, part in zip(folders, stored, strict=True) for shard in one.valid_shards(part.settings)}
    missing = len(settings.shards) - len(sources)
    if missing:
        first_missing = next(shard for shard in settings.shards if shard not in sources)
        raise RunError(
            f"expected all {len(settings.shards)} shards in the parts together, but {missing} are missing, such as number "
            f"{first_missing}; finish each part with --resume, and name every part."
        )
    with target.started(settings, stored[0].provenance):
        for shard, folder in sorted(sources.items()):
            target.write_shard(settings, shard, _require_shard(folder, settings, shard))
        finish(target, settings, settings.shards)
    return open_run(target.path)


def finish(folder: RunFolder, settings: Settings, shards: range) -> None:
    """Write results, figures, failures and summary of these shards, and finished.json last."""
    # They import torch, for which folders that cannot be merged need not wait.
    from identiformer.measures.corpus import MEASURES
    from identiformer.readings.corpus import summarize

    states, failures = _fold((_require_shard(folder, settings, shard) for shard in shards), settings.measures)
    expected = sum(len(settings.examples_in(shard)) for shard in shards)
    failed = {failure.example for failure in failures if failure.what in ("tokenizing", "answering", "running", "texts")}
    measured = int(states["texts"].totals.get("examples", 0))
    if measured + len(failed) != expected:
        raise RunError(
            f"expected {expected} examples in the shards of {folder.path}, got {measured} that were measured and {len(failed)} "
            f"that failed; remove its shards and continue with --resume."
        )
    provenance = folder.stored().provenance
    source, shown = settings.source(provenance), settings.of_results()
    try:
        results = {
            name: describe(MEASURES[name].finalize(state), f"corpus_{name}", source, shown)
            for name, state in states.items()
            if state.totals  # empty if every example failed
        }
    except (KeyError, ValueError, TypeError, IndexError) as error:
        raise RunError(
            f"expected valid shards in {folder.path}, got some that no measure can use ({type(error).__name__}); remove them and "
            f"continue with --resume."
        ) from error
    (folder.path / FINISHED).unlink(missing_ok=True)
    _write_results(folder.path, results)
    lines = [json.dumps(asdict(failure), ensure_ascii=False) + "\n" for failure in failures]
    listed = "".join(lines).encode(errors="backslashreplace")
    summary = summarize(settings.as_json(), provenance, results, failures).encode()
    write_file(folder.path / FAILURES, listed)
    write_file(folder.path / SUMMARY, summary)
    hashes = {name: hash_of_files(folder.path / RESULTS / name) if name in results else None for name in settings.measures}
    finished = Finished(hashes, hash_of(listed), hash_of(summary))
    write_file(folder.path / FINISHED, json.dumps(asdict(finished), indent=2).encode())


def _require_shard(folder: RunFolder, settings: Settings, shard: int) -> ShardResult:
    result = folder.read_shard(settings, shard)
    if result is None:
        raise RunError(f"shard {shard} in {folder.path} is missing or damaged; compute it again with --resume.")
    return result


def _fold(shards: Iterable[ShardResult], measures: Iterable[str]) -> tuple[dict[str, State], list[Failure]]:
    """Merge the states of all shards in order, and collect their failures."""
    from identiformer.measures.corpus import MEASURES

    states = {name: State.empty() for name in measures}
    failures: list[Failure] = []
    for shard in shards:
        for name, state in states.items():
            added = shard.states[name]
            same_names = MEASURES[name].per_example or state.totals.keys() == added.totals.keys()
            if state.totals and added.totals and not same_names:
                raise RunError(f"expected shards of one run, but {name} has other totals in some; remove them and use --resume.")
            states[name] = state.merge(added)
        failures += shard.failures
    return states, failures


def _write_results(folder: Path, results: Mapping[str, xr.Dataset]) -> None:
    # Imported here so that a run starts without waiting for what only its end needs.
    import zarr

    from identiformer.figures.saving import save_corpus_figures

    root = folder / RESULTS
    zarr.open_group(root, mode="a")
    # A killed run may have left temporary files of ours or of Zarr's, and a run with other measures its results.
    for entry in root.iterdir():
        if entry.is_dir() and entry.name not in results:
            shutil.rmtree(entry)
        elif not entry.is_dir() and entry.name != "zarr.json":
            entry.unlink()
    for name, result in results.items():
        save_result(result, root / name)
    save_corpus_figures(results, folder / FIGURES)
