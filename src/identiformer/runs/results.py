"""From the shards of a run to its results, figures and summary."""

import json
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import xarray as xr

from identiformer.errors import RunError
from identiformer.measures.corpus import MEASURES, State
from identiformer.results import describe, open_result, save_result
from identiformer.runs.files import disk_full_is_an_error, write_whole
from identiformer.runs.folder import FAILURES, FIGURES, RESULTS, SUMMARY, RunFolder
from identiformer.runs.settings import Settings
from identiformer.runs.shard_file import Failure, ShardResult
from identiformer.runs.summary import summarise


def fold(shards: Iterable[ShardResult], measures: Iterable[str]) -> tuple[dict[str, State], list[Failure]]:
    """The states of all shards as one, in shard order."""
    states = {name: State.empty() for name in measures}
    failures: list[Failure] = []
    for shard in shards:
        states = {name: state.merge(shard.states[name]) for name, state in states.items()}
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
    source, told = _source(settings, folder.provenance()), _told(settings)
    results = {
        name: describe(MEASURES[name].finalise(state), f"corpus_{name}", source, told)
        for name, state in states.items()
        if state.totals  # nothing to tell where every example failed
    }
    with disk_full_is_an_error(folder.path):
        _write(folder, results, failures)
        write_whole(folder.path / SUMMARY, summarise(settings, folder.provenance(), results, failures).encode())


def _write(folder: RunFolder, results: Mapping[str, xr.Dataset], failures: list[Failure]) -> None:
    # Only here, so that a run begins without waiting for what its end needs.
    import zarr

    from identiformer.runs.corpus_figures import draw_figures

    root = folder.path / RESULTS
    zarr.open_group(root, mode="a")
    for stale in root.iterdir():
        if stale.is_dir() and stale.name not in results:
            shutil.rmtree(stale)
    for name, result in results.items():
        save_result(result, root / name)
    lines = [json.dumps(asdict(failure), ensure_ascii=False) + "\n" for failure in failures]
    write_whole(folder.path / FAILURES, "".join(lines).encode())
    draw_figures(results, folder.path / FIGURES)


def read_results(path: Path, measures: Iterable[str]) -> dict[str, xr.Dataset]:
    """The results on disk, by measure."""
    return {name: open_result(path / RESULTS / name) for name in measures if (path / RESULTS / name / "zarr.json").is_file()}


def _source(settings: Settings, provenance: Mapping[str, str]) -> dict[str, str]:
    versions = {f"{package}_version": number for package, number in settings.versions.items()}
    own = {"revision": settings.revision, "architecture": settings.architecture, "dtype": settings.dtype}
    return {"model": provenance["model"], **own, "corpus": provenance["corpus"], "corpus_hash": settings.corpus_hash, **versions}


def _told(settings: Settings) -> dict[str, Any]:
    """What a result depends on. How the corpus was cut into shards is not among it."""
    return {name: getattr(settings, name) for name in ("examples", "max_length", "probes", "seed", "part")}
