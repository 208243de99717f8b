"""From the shards of a run to its results, figures and summary."""

import shutil
from collections.abc import Iterable, Mapping, Sequence

import xarray as xr

from identiformer.errors import RunError
from identiformer.measures.corpus import MEASURES, State
from identiformer.results import describe, save_result
from identiformer.runs.finished import Outcome, shown_settings, source_of, write_finished
from identiformer.runs.folder import FIGURES, FINISHED, RESULTS, RunFolder
from identiformer.runs.settings import Settings
from identiformer.runs.shard_file import Failure, ShardResult
from identiformer.runs.summary import summarize


def fold(shards: Iterable[ShardResult], measures: Iterable[str]) -> tuple[dict[str, State], list[Failure]]:
    """The states of all shards as one, in shard order."""
    states = {name: State.empty() for name in measures}
    failures: list[Failure] = []
    for shard in shards:
        for name, state in states.items():
            found = shard.states[name]
            if state.totals and found.totals and state.totals.keys() != found.totals.keys():
                raise RunError(
                    f"expected shards of one run, but {name} has other numbers in some; remove them and go on with --resume."
                )
            states[name] = state.merge(found)
        failures += shard.failures
    return states, failures


def finish(folder: RunFolder, settings: Settings, shards: range) -> None:
    """Write the results of the given shards, which must all be there."""

    def read(shard: int) -> ShardResult:
        found = folder.read_shard(settings, shard)
        if found is None:
            raise RunError(f"shard {shard} in {folder.path} is missing or damaged; make it anew with --resume.")
        return found

    states, failures = fold(map(read, shards), settings.measures)
    _require_all(states, failures, sum(map(settings.examples_in, shards)), folder)
    source, shown = source_of(settings, folder.provenance()), shown_settings(settings)
    try:
        results = {
            name: describe(MEASURES[name].finalize(state), f"corpus_{name}", source, shown)
            for name, state in states.items()
            if state.totals  # nothing to tell where every example failed
        }
    except (KeyError, ValueError, TypeError, IndexError) as error:
        raise RunError(
            f"expected shards that a run wrote in {folder.path}, got some that no measure can use ({type(error).__name__}); "
            f"remove them and go on with --resume."
        ) from error
    outcome = Outcome(results, tuple(failures), summarize(settings, folder.provenance(), results, failures))
    (folder.path / FINISHED).unlink(missing_ok=True)
    _write(folder, results)
    write_finished(folder, outcome)


def _require_all(states: Mapping[str, State], failures: Sequence[Failure], expected: int, folder: RunFolder) -> None:
    """Every example is counted or has failed: none is lost on the way."""
    lost = {failure.example for failure in failures if failure.what in ("reading", "running", "texts")}
    counted = int(states["texts"].totals.get("examples", 0))
    if counted + len(lost) != expected:
        raise RunError(
            f"expected {expected} examples in the shards of {folder.path}, got {counted} that were measured and {len(lost)} that "
            f"failed; remove its shards and go on with --resume."
        )


def _write(folder: RunFolder, results: Mapping[str, xr.Dataset]) -> None:
    # Only here, so that a run begins without waiting for what its end needs.
    import zarr

    from identiformer.runs.corpus_figures import draw_figures

    root = folder.path / RESULTS
    zarr.open_group(root, mode="a")
    # A killed run may have left temporary files of ours and of Zarr's, and a run of other measures its results.
    for stale in root.iterdir():
        if stale.is_dir() and stale.name not in results:
            shutil.rmtree(stale)
        elif not stale.is_dir() and stale.name != "zarr.json":
            stale.unlink()
    for name, result in results.items():
        save_result(result, root / name)
    draw_figures(results, folder.path / FIGURES)
