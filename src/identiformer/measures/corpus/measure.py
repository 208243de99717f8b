"""What a corpus measure is, and the first of them: how many texts and tokens a corpus has, and how long its texts are."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import xarray as xr

from identiformer.measures.corpus.state import State
from identiformer.passage import Passage
from identiformer.results import labeled
from identiformer.results.schema import VARIABLES
from identiformer.texts import Example, Survey

LONGEST = 512
"""Longer texts are counted under this length."""
LAYER_HEAD = ("layer", "head")


@dataclass(frozen=True, eq=False)
class Observation:
    """One example of a corpus and the model's forward pass over it."""

    passage: Passage
    example: Example
    index: int
    """Position in the corpus, from 0."""
    seed: int
    """Of the whole run; that of the passage differs from text to text."""
    cut: bool
    """Whether some of the text was left out: tokens beyond the largest length, or words too long for the tokenizer."""
    long_words: bool
    """Whether a word is longer than the tokenizer reads, so that one unknown token replaces it."""
    maps: tuple[str, ...] = ()
    """Names of the maps that faithfulness judges; all cheap ones if there are none."""
    yardsticks: tuple[str, ...] = ()
    """Names of the yardsticks that it judges them by; those of the default if there are none."""


@dataclass(frozen=True)
class CorpusMeasure:
    """A monoid over texts: `observe` maps an example to a state, states merge, and `finalize` maps a state to a result."""

    name: str
    observe: Callable[[Observation], State]
    finalize: Callable[[State], xr.Dataset]
    needs_trace: bool = True
    cheap: bool = True
    """Whether it takes no longer than the forward pass."""
    per_example: bool = False
    """Whether its state has totals of each example, so that the totals of two states have different names."""
    packages: Callable[[Survey], tuple[str, ...]] = lambda _: ()
    """Packages beyond the core that it needs for a corpus, whose versions are settings of a run; raises if one is missing."""


def by_layer_and_head(counts: np.ndarray) -> dict[str, np.ndarray]:
    """The coordinates of an array over (layer, head)."""
    layers, heads = counts.shape
    return {"layer": np.arange(1, layers + 1), "head": np.arange(heads)}


def _observe_texts(observation: Observation) -> State:
    tokens = len(observation.passage.tokens)
    counts = {
        "examples": 1,
        "tokens": tokens,
        "cut": int(observation.cut),
        "long_words": int(observation.long_words),
        "pairs": int(observation.example.pair is not None),
    }
    lengths = (np.arange(LONGEST + 1) == min(tokens, LONGEST)).astype(np.int64)
    return State({**{name: np.array(count) for name, count in counts.items()}, "lengths": lengths})


def _finalize_texts(state: State) -> xr.Dataset:
    return labeled("corpus_texts", {name: state[name] for name in VARIABLES["corpus_texts"]}, {"length": np.arange(LONGEST + 1)})


TEXTS = CorpusMeasure("texts", _observe_texts, _finalize_texts, needs_trace=False)
