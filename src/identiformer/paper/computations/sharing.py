"""Layers or fine-tuning tasks shared among processes, one thread each; results do not depend on the number of workers."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import xarray as xr

from identiformer.engines import Job, RayEngine, SerialEngine
from identiformer.models import Model
from identiformer.models.hidden_states.recording import hidden_states
from identiformer.progress import work_bar
from identiformer.runs.worker import one_thread
from identiformer.texts import Corpus, read_corpus

Measure = Callable[..., xr.Dataset]


def share_layers(
    measure: Measure, model: Model, corpus: Corpus, layers: Sequence[int], dimension: str, workers: int, progress: bool,
    options: dict[str, Any],
) -> xr.Dataset:  # fmt: skip
    """Measure each layer in some worker, and concatenate the results along a dimension; options must name a store."""
    with one_thread(), work_bar("running the model", progress) as bar:  # once, before every worker looks for the states
        examples = read_corpus(corpus, options["limit"])
        with hidden_states(model, examples, options["store"], max_length=options["max_length"], bar=bar):
            pass
    # Workers take the examples that were read, in case the file changes.
    worker = partial(_measure_layer, measure, model, examples, options)
    # Late layers take the longest to fit.
    job = Job(partial(_same, worker), layers, _same, _same, lambda _: None)
    results = dict(_outcomes(job, workers, "fitting and testing, by layer", progress))
    return concatenate([results[layer] for layer in layers], dimension)


def finetune_each(model: Model, data: str, folders: dict[str, Path], limit: int | None, workers: int, progress: bool) -> None:
    """Fine-tune for each task whose folder does not hold a finished model yet."""
    tasks = [task for task, folder in folders.items() if not (folder / "scores.json").is_file()]
    several = min(workers, len(tasks)) > 1
    worker = partial(_finetune, model, data, folders, limit, progress and not several)
    job = Job(partial(_same, worker), range(len(tasks)), tasks.__getitem__, lambda _: 0, lambda _: None)
    for _ in _outcomes(job, workers if several else 1, "fine-tuning, by task", progress and several):
        pass


def concatenate(results: Sequence[xr.Dataset], dimension: str) -> xr.Dataset:
    """Concatenate results; what does not depend on the dimension, such as the random rate, is taken from the first."""
    first: Any = {"data_vars": "minimal", "coords": "minimal", "compat": "override", "combine_attrs": "override"}
    return xr.concat(results, dimension, join="outer", **first)


def _outcomes(job: Job, workers: int, label: str, progress: bool) -> Iterator[tuple[int, Any]]:
    engine = SerialEngine() if workers == 1 else RayEngine(workers)
    with work_bar(label, progress) as bar, closing(engine.map(job)) as outcomes:
        bar.expect(len(job.numbers))
        for number, outcome in outcomes:
            yield number, outcome
            bar.advance(1)


def _measure_layer(measure: Measure, model: Model, corpus: Corpus, options: dict[str, Any], layer: int) -> xr.Dataset:
    with one_thread():
        return measure(model, corpus, layers=[layer], **options)


def _finetune(model: Model, data: str, folders: dict[str, Path], limit: int | None, progress: bool, task: str) -> None:
    # Imported here, because training classes take long to import.
    from identiformer.finetuning.glue import finetune

    with one_thread():
        finetune(model, task, data, out=folders[task], limit=limit, progress=progress)


def _same(value: Any) -> Any:
    return value
