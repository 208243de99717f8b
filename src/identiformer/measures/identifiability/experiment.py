"""Every measure of token identifiability: prepare states, methods and splits, fit probes, and count the tokens they recover."""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypedDict

import numpy as np
import torch
import xarray as xr
from torch import nn

from identiformer.equations.identifiability.rates import example_bootstrap, random_rate
from identiformer.errors import InputError
from identiformer.measures.indices import Indices, select_indices
from identiformer.models.hidden_states.recording import hidden_states
from identiformer.models.hidden_states.store import HiddenStates, Origin
from identiformer.models.model import Model
from identiformer.options import check_resplits, check_seed
from identiformer.probes import ClosedForm, Method, Split, Task, TokenProbe, split_examples
from identiformer.probes.token_probe import Fit
from identiformer.progress import WorkBar, work_bar
from identiformer.results import make_result
from identiformer.results.schema import RATES
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


def recovery_task(states: HiddenStates, layer: int, candidates_layer: int = 0, offset: int = 0) -> Task:
    """Recover x_{i+offset}, or the vector of another layer there, from e_i of a layer, where that position exists."""
    hidden, candidates = states.layer(layer).values, states.layer(candidates_layer).values
    position = states.position + offset
    rows = np.flatnonzero((position >= 0) & (position < states.lengths[states.example]))
    target = torch.from_numpy(rows + offset)
    chosen = hidden if len(rows) == len(hidden) else hidden[torch.from_numpy(rows)]
    by_piece = candidates_layer == 0 and not states.positional
    return Task(chosen, candidates, target, torch.from_numpy(states.starts), torch.from_numpy(states.ids), by_piece)


class Fits:
    """The fits of one task; what splits share is computed once, and fits by Adam are stored if hidden states are."""

    def __init__(
        self, experiment: Experiment, layer: int, name: str = "input", candidates_layer: int = 0, offset: int = 0
    ) -> None:
        """Take the task of recovering vectors from a layer; `name` distinguishes the tasks of a layer on disk."""
        self.experiment, self.layer, self.name = experiment, layer, name
        self.task = recovery_task(experiment.states, layer, candidates_layer, offset)
        self._closed: dict[str, ClosedForm] = {}

    def __call__(self, method: Method, resplit: int, split: Split) -> nn.Module:
        """The map fitted to a split, with a seed of its own per resplit."""
        method = replace(method, seed=method.seed + resplit)
        if method.fit == "closed":
            if method.loss not in self._closed:
                self._closed[method.loss] = ClosedForm(self.task, method.metric)
            return method.fit_map(self.task, split, self._closed[method.loss])
        if not self.experiment.keep_fits:
            return method.fit_map(self.task, split)
        states = self.experiment.states
        key = json.dumps([self.layer, self.name, method.settings(), [split.training.tolist(), split.validation.tolist()]])
        path = states.folder / "fits" / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.safetensors"
        if path.exists():
            return TokenProbe.load(path).network
        probe = TokenProbe(**method.settings())
        probe.map = method.fit_map(self.task, split)
        probe.origin = Origin(states.source["model"], states.source["revision"], self.layer)
        probe.save(path)
        return probe.map

    def test(self, method: Method, splits: Sequence[Split]) -> "Tally":
        """Fit a method to every resplit and test it on the held-out examples."""
        tally = Tally(self.task, method, len(splits))
        for resplit, split in enumerate(splits):
            tally.add(self(method, resplit, split), split.test, resplit)
        return tally


def is_undefined(task: Task, method: Method) -> bool:
    """Whether hidden vectors and inputs, of different widths, cannot be compared without a map."""
    return method.kind == "naive" and task.hidden.shape[1] != task.candidates.shape[1]


class Tally:
    """Counts of the tokens that one method recovers, over the resplits."""

    def __init__(self, task: Task, method: Method, resplits: int) -> None:
        self.task, self.method = task, method
        self.hits, self.tokens = np.zeros((2, len(task.starts) - 1, resplits), int)  # (example resplit)
        self.row_hits, self.row_tests = np.zeros((2, len(task.hidden)), int)  # (row), over all resplits
        self.strict = self.lenient = self.ties = 0

    def add(self, network: nn.Module, examples: np.ndarray, resplit: int) -> None:
        """Test a map on some examples."""
        task = self.task
        rows = task.rows(examples)
        with torch.no_grad():
            recovered = task.recover(network(task.hidden[rows]), rows, self.method.metric)
        hits = task.hits(recovered).numpy()
        example = task.example[rows].numpy()
        self.hits[:, resplit] += np.bincount(example, hits, len(self.hits)).astype(np.int64)
        self.tokens[:, resplit] += np.bincount(example, minlength=len(self.hits))
        self.row_hits[rows.numpy()] += hits
        self.row_tests[rows.numpy()] += 1
        self.strict += int(recovered.strict.sum())
        self.lenient += int(recovered.lenient.sum())
        self.ties += int(recovered.tied.sum())

    @property
    def by_resplit(self) -> np.ndarray:
        """The recovery rate of each resplit."""
        return self.hits.sum(0) / self.tokens.sum(0)

    def summary(self, seed: int) -> dict[str, float]:
        """The mean rate over resplits, its standard deviation, and a bootstrap interval over examples."""
        low, high = example_bootstrap(self.hits, self.tokens, seed=seed)
        rates = self.by_resplit
        deviation = float(rates.std(ddof=1)) if len(rates) > 1 else float("nan")
        return {"rate": float(rates.mean()), "rate_sd": deviation, "rate_low": low, "rate_high": high}

    def rate_by_group(self, groups: np.ndarray, count: int) -> np.ndarray:
        """The rate of each group of rows; NaN where none was tested."""
        tests = np.bincount(groups, self.row_tests, count)
        return np.divide(np.bincount(groups, self.row_hits, count), tests, out=np.full(count, np.nan), where=tests > 0)


def measure_rates(
    experiment: Experiment,
    measure: str,
    coordinates: Mapping[str, Sequence[Any]],
    cells: Iterable[tuple[tuple[int, ...], Fits, Sequence[Split]]],
) -> xr.Dataset:
    """The rates of every method in every cell: its index after the axis of probes, its fits and its splits."""
    shape = (len(experiment.methods), len(experiment.layers), *map(len, coordinates.values()))
    arrays = {name: np.full(shape, np.nan) for name in RATES}
    experiment.bar.expect(arrays["rate"].size)
    for index, fits, splits in cells:
        for probe, method in enumerate(experiment.methods):
            if not is_undefined(fits.task, method):
                for name, value in fits.test(method, splits).summary(experiment.seed).items():
                    arrays[name][(probe, *index)] = value
            experiment.bar.advance(1)
    return experiment.dataset(measure, arrays, coordinates)
