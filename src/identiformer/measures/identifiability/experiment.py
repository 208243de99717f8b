"""What every measure of token identifiability starts from: options, hidden states of a corpus, methods and splits."""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
import xarray as xr

from identiformer.equations.identifiability.rates import random_rate
from identiformer.errors import InputError
from identiformer.measures.indices import Indices, select_indices
from identiformer.models.hidden_states.recording import hidden_states
from identiformer.models.hidden_states.store import HiddenStates
from identiformer.models.model import Model
from identiformer.options import check_resplits, check_seed
from identiformer.probes import Method, Split, split_examples
from identiformer.probes.method import Fit
from identiformer.progress import WorkBar, work_bar
from identiformer.results import make_result
from identiformer.texts import Corpus, read_corpus

CLOSED_METHODS = ("naive cosine", "naive l2", "linear cosine", "linear l2", "procrustes cosine")
"""Methods that take seconds."""


class Options(TypedDict, total=False):
    """Options of every measure of token identifiability, documented in `token_identifiability`."""

    methods: Iterable[str | Method]
    fit: Fit
    layers: Indices | None
    resplits: int
    limit: int | None
    max_length: int | None
    store: str | os.PathLike[str] | None
    seed: int
    progress: bool


@dataclass(frozen=True, eq=False)
class Experiment:
    """The hidden states of a corpus, split and ready to be measured."""

    states: HiddenStates
    methods: list[Method]
    layers: list[int]
    splits: list[Split]
    keep_fits: bool
    """Whether fits by Adam are stored next to the hidden states."""
    settings: Mapping[str, Any]
    bar: WorkBar

    @property
    def seed(self) -> int:
        return int(self.settings["seed"])

    def dataset(self, measure: str, arrays: Mapping[str, Any], coordinates: Mapping[str, Any]) -> xr.Dataset:
        """Label the arrays of a measure, and record where they came from and what a rate counts."""
        arrays = {**arrays, "random_rate": random_rate(self.states.lengths)}
        source = {
            **self.states.source,
            "examples": self.states.examples,
            "tokens": len(self.states.ids),
            "headline": "strict" if self.states.positional else "lenient",
        }
        axes = {"probe": [method.name for method in self.methods], "layer": self.layers, **coordinates}
        settings = {**self.settings, "methods": [method.settings() for method in self.methods]}
        return make_result(measure, arrays, axes, source, settings)


@contextmanager
def prepare_experiment(
    model: Model, corpus: Corpus, options: Options, default: Iterable[str | Method] = CLOSED_METHODS
) -> Iterator[Experiment]:
    """Check the options, run the model over the corpus (or read its states from the store), and split it."""
    unknown = set(options) - set(Options.__annotations__)
    if unknown:
        raise TypeError(f"unexpected option {', '.join(sorted(unknown))}; expected some of {', '.join(Options.__annotations__)}")
    methods = read_methods(options.get("methods", default), options.get("fit", "closed"))
    seed = check_seed(options.get("seed", 0))
    examples = read_corpus(corpus, options.get("limit"))
    store, show = options.get("store"), options.get("progress", False)
    with (
        work_bar("running the model", show) as running,
        hidden_states(model, examples, store, max_length=options.get("max_length"), bar=running) as states,
    ):
        splits = _splits(states, options.get("resplits", 10), seed)
        layers = select_indices(options.get("layers"), states.layers, "layer", first=1)
        settings = {"resplits": len(splits), "seed": seed, "limit": options.get("limit")}
        with work_bar("fitting and testing", show) as fitting:
            yield Experiment(states, methods, layers, splits, store is not None, settings, fitting)


def read_methods(methods: Iterable[str | Method], fit: str) -> list[Method]:
    """Expand names such as "linear cosine" to methods; `fit` is how the linear ones among the names are fitted."""
    only_fit = {"mlp": "adam", "procrustes": "closed", "naive": "closed"}
    read = []
    for method in methods:
        if isinstance(method, Method):
            read.append(method)
            continue
        words = method.split()
        if len(words) != 2:
            raise InputError(f"expected a method such as 'linear cosine' or 'mlp l2', got {method!r}.")
        read.append(Method(words[0], words[1], only_fit.get(words[0], fit)))
    names = [method.name for method in read]
    if not names or len(set(names)) != len(names):
        raise InputError(f"expected one or more methods of different names, got {', '.join(names) or 'none'}.")
    return read


def _splits(states: HiddenStates, resplits: int, seed: int) -> list[Split]:
    check_resplits(resplits)
    single = np.flatnonzero(states.lengths == 1)
    if len(single):
        raise InputError(
            f"expected examples of two tokens or more, but example {single[0]} (counted from 0) has one, which is always "
            "recovered; leave it out."
        )
    return [split_examples(states.examples, seed + number) for number in range(resplits)]
