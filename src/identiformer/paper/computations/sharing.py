"""One measure of token identifiability, its layers shared among processes: what is fitted on one knows nothing of the others."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import xarray as xr

from identiformer.engines import Job, RayEngine, SerialEngine
from identiformer.models import Model
from identiformer.models.hidden_states.recording import hidden_states
from identiformer.progress import work_bar
from identiformer.runs.worker import one_thread
from identiformer.texts import Corpus, read_corpus


@dataclass(frozen=True)
class LayerWorker:
    """Measures one layer at a time, on one thread: the same bits however many work."""

    measure: Callable[..., xr.Dataset]
    model: Model
    corpus: Corpus
    options: dict[str, Any]

    def __call__(self, layer: int) -> xr.Dataset:
        with one_thread():
            return self.measure(self.model, self.corpus, layers=[layer], **self.options)


def share_layers(
    measure: Callable[..., xr.Dataset],
    model: Model,
    corpus: Corpus,
    layers: Sequence[int],
    dimension: str,
    workers: int,
    progress: bool,
    options: dict[str, Any],
) -> xr.Dataset:
    """The measure over all these layers; `dimension` is that of the result on which they stand. Options must name a store."""
    with one_thread(), work_bar("running the model", progress) as bar:  # once, before all look for the states
        examples = read_corpus(corpus, options["limit"])
        with hidden_states(model, examples, options["store"], max_length=options["max_length"], bar=bar):
            pass
    engine = SerialEngine() if workers == 1 else RayEngine(workers)
    with work_bar("fitting and testing, by layer", progress) as bar:
        bar.expect(len(layers))
        found: dict[int, xr.Dataset] = {}
        # The same texts everywhere, whatever has become of the file.
        make_worker = partial(LayerWorker, measure, model, examples, options)
        # Late layers take the longest to fit.
        for layer, result in engine.map(Job(make_worker, layers, _itself, _itself, lambda _: None)):
            found[layer] = result
            bar.advance(1)
    return put_together([found[layer] for layer in layers], dimension)


def put_together(results: Sequence[xr.Dataset], dimension: str) -> xr.Dataset:
    """Results side by side; what does not depend on the dimension, such as the rate of guessing, is that of the first."""
    first: Any = {"data_vars": "minimal", "coords": "minimal", "compat": "override", "combine_attrs": "override"}
    return xr.concat(results, dimension, join="outer", **first)


def _itself(layer: int) -> int:
    return layer
