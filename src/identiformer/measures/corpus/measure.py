"""What a corpus measure is, and the first of them: how many texts and tokens a corpus has, and how long its texts are."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import xarray as xr

from identiformer.measures.attribution.hidden_token import attribution_of
from identiformer.measures.corpus.state import State
from identiformer.models import Model
from identiformer.passage import Passage
from identiformer.texts import Example, Survey
from identiformer.tokens import Tokens
from identiformer.trace import Trace

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

    @property
    def model(self) -> Model:
        """What reads it."""
        return self.passage.model

    @property
    def tokens(self) -> Tokens:
        """The tokens of the text, or of the answer that the model wrote after it."""
        return self.passage.tokens

    @property
    def recorded(self) -> Trace:
        """The forward pass, for measures that declare that they need it."""
        return self.passage.trace

    @property
    def attribution(self) -> xr.Dataset:
        """Hidden Token Attribution of the example, computed once for all measures."""
        return attribution_of(self.passage)


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


def length_index(tokens: int) -> int:
    """The index of a text's length on the axis of lengths."""
    return min(tokens, LONGEST)


def _observe_texts(observation: Observation) -> State:
    lengths = np.zeros(LONGEST + 1, dtype=np.int64)
    lengths[length_index(len(observation.tokens))] = 1
    counts = {
        "examples": 1,
        "tokens": len(observation.tokens),
        "cut": int(observation.cut),
        "long_words": int(observation.long_words),
        "pairs": int(observation.example.pair is not None),
    }
    return State({**{name: np.array(count) for name, count in counts.items()}, "lengths": lengths})


def _finalize_texts(state: State) -> xr.Dataset:
    variables = {name: ((), state[name]) for name in ("examples", "tokens", "cut", "long_words", "pairs")}
    return xr.Dataset({**variables, "lengths": (("length",), state["lengths"])}, {"length": np.arange(LONGEST + 1)})


TEXTS = CorpusMeasure("texts", _observe_texts, _finalize_texts, needs_trace=False)
