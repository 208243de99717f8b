"""What every measure of token identifiability is asked with, and what it then has at hand."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
import xarray as xr

from identiformer.equations.identifiability.rates import random_rate
from identiformer.errors import InputError
from identiformer.models.hidden_states.recording import hidden_states
from identiformer.models.hidden_states.store import HiddenStates
from identiformer.models.model import Model
from identiformer.options import check_seed
from identiformer.probes import Method, Split, split_examples
from identiformer.probes.fitting import Fit
from identiformer.progress import WorkBar, work_bar
from identiformer.results import describe
from identiformer.results.schema import VARIABLES
from identiformer.texts import Corpus, read_corpus

CLOSED_METHODS = ("naive cosine", "naive l2", "linear cosine", "linear l2", "procrustes cosine")
"""Those that take seconds."""
MOST_RESPLITS = 10_000
"""More would not end."""


class Options(TypedDict, total=False):
    """How to measure; the same for every measure of token identifiability."""

    methods: Iterable[str | Method]
    """"KIND LOSS", with kinds naive, linear, procrustes, mlp and losses cosine, l2; or `Method`s with settings of their own."""
    fit: Fit
    """How linear maps are fitted: "closed" (seconds) or "adam" (as the paper). An MLP always takes Adam, which is slow."""
    layers: Sequence[int] | None
    """Counted from 1; all without it."""
    resplits: int
    """How often the examples are dealt anew into training, validation and test part; 10 without it."""
    limit: int | None
    """Only the first so many examples of the corpus."""
    max_length: int | None
    """Cut examples to so many tokens, and count those that were cut; otherwise one that is too long for the model is an error."""
    store: str | os.PathLike[str] | None
    """A folder in which hidden states, and fits by Adam, are kept and found again."""
    seed: int
    progress: bool
    """Show a bar."""


@dataclass(frozen=True, eq=False)
class Plan:
    """A corpus run through a model, split and ready to be measured."""

    states: HiddenStates
    methods: list[Method]
    layers: list[int]
    splits: list[Split]
    keep: bool
    """Whether fits that take long are kept on disk."""
    settings: Mapping[str, Any]
    bar: WorkBar

    @property
    def seed(self) -> int:
        return int(self.settings["seed"])

    def dataset(
        self, measure: str, arrays: Mapping[str, np.ndarray], coordinates: Mapping[str, Any], **settings: Any
    ) -> xr.Dataset:
        """A result that says where it came from, and what its rate counts."""
        dims = VARIABLES[measure]
        variables = {name: (dims[name], array) for name, array in arrays.items()}
        source = {
            **self.states.source,
            "examples": self.states.examples,
            "tokens": len(self.states.ids),
            "headline": "strict" if self.states.positional else "lenient",
        }
        names = {"probe": [method.name for method in self.methods], "layer": self.layers}
        result = xr.Dataset(variables | {"random_rate": ((), random_rate(self.states.lengths))}, names | dict(coordinates))
        methods = [method.settings() for method in self.methods]
        return describe(result, measure, source, dict(self.settings) | {"methods": methods} | settings)


@contextmanager
def prepared(model: Model, corpus: Corpus, options: Options, default: Iterable[str | Method] = CLOSED_METHODS) -> Iterator[Plan]:
    """Read the options, run the model over the corpus (or find its states in the store), and split it."""
    unknown = set(options) - set(Options.__annotations__)
    if unknown:
        raise TypeError(f"unexpected option {', '.join(sorted(unknown))}; expected some of {', '.join(Options.__annotations__)}")
    methods = read_methods(options.get("methods", default), options.get("fit", "closed"))
    check_seed(options.get("seed", 0))
    examples = read_corpus(corpus, options.get("limit"))
    store, shown = options.get("store"), options.get("progress", False)
    max_length, seed = options.get("max_length"), options.get("seed", 0)
    with (
        work_bar("running the model", shown) as running,
        hidden_states(model, examples, store, max_length=max_length, bar=running) as states,
    ):
        splits = _splits(states, options.get("resplits", 10), seed)
        layers = _layers(states, options.get("layers"))
        settings = {"resplits": len(splits), "seed": seed, "limit": options.get("limit")}
        with work_bar("fitting and testing", shown) as fitting:
            yield Plan(states, methods, layers, splits, store is not None, settings, fitting)


def read_methods(methods: Iterable[str | Method], fit: str) -> list[Method]:
    """Methods by name, such as "linear cosine", or as they are; `fit` says how the linear ones among the names are fitted."""
    alone = {"mlp": "adam", "procrustes": "closed", "naive": "closed"}
    read = []
    for method in methods:
        if isinstance(method, Method):
            read.append(method)
            continue
        words = method.split()
        if len(words) != 2:
            raise InputError(f"expected a method such as 'linear cosine' or 'mlp l2', got {method!r}.")
        read.append(Method(words[0], words[1], alone.get(words[0], fit)))
    names = [method.name for method in read]
    if not names or len(set(names)) != len(names):
        raise InputError(f"expected one or more methods of different names, got {', '.join(names) or 'none'}.")
    return read


def _splits(states: HiddenStates, resplits: int, seed: int) -> list[Split]:
    if resplits < 1:
        raise InputError(f"expected at least one resplit, got {resplits}.")
    if resplits > MOST_RESPLITS:
        raise InputError(f"expected at most {MOST_RESPLITS} resplits, got {resplits}; the paper takes 10.")
    alone = np.flatnonzero(states.lengths == 1)
    if len(alone):
        raise InputError(
            f"expected examples of two tokens or more, but example {alone[0]} (counted from 0) has one, which is always found; "
            "leave it out."
        )
    return [split_examples(states.examples, seed + number) for number in range(resplits)]


def _layers(states: HiddenStates, layers: Sequence[int] | None) -> list[int]:
    chosen = list(range(1, states.layers + 1)) if layers is None else list(layers)
    if not chosen or not all(1 <= layer <= states.layers for layer in chosen):
        raise InputError(f"expected layers from 1 to {states.layers}, got {chosen}.")
    return chosen
