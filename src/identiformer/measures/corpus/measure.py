"""What a corpus measure is, and the first of them: how many texts and tokens a corpus has, and how long its texts are."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import xarray as xr

from identiformer.measures.corpus.state import State
from identiformer.measures.maps.subject import Subject
from identiformer.models import Answer, Model
from identiformer.texts import Example, Survey
from identiformer.tokens import Tokens
from identiformer.trace import Trace

LONGEST = 512
"""Longer texts are counted under this length."""
LAYER_HEAD = ("layer", "head")


@dataclass(frozen=True, eq=False)
class Observation:
    """One example of a corpus and the model's forward pass over it."""

    model: Model
    example: Example
    index: int
    """Position in the corpus, from 0."""
    directions: int
    seed: int
    tokens: Tokens
    cut: bool
    """Whether some of the text was left out: tokens beyond the largest length, or words too long for the tokenizer."""
    long_words: bool
    """Whether a word is longer than the tokenizer reads, so that one unknown token replaces it."""
    trace: Trace | None
    """The forward pass, if a measure needs it."""
    maps: tuple[str, ...] = ()
    """Names of the maps that faithfulness judges; all cheap ones if there are none."""
    yardsticks: tuple[str, ...] = ()
    """Names of the yardsticks that it judges them by; those of the default if there are none."""
    others: tuple[Example, ...] = ()
    """The other texts of its block, which are the same however the corpus is divided."""
    answer: Answer | None = None
    """What the model wrote after the text of the example, if it was to answer it; tokens and trace are those of both."""

    @property
    def recorded(self) -> Trace:
        """The forward pass, for measures that declare that they need it."""
        if self.trace is None:
            raise ValueError("expected a trace; a measure that uses it is registered with needs_trace=True")
        return self.trace

    @cached_property
    def subject(self) -> Subject:
        """What maps and yardsticks are computed from."""
        # Each text has directions of its own: errors that all texts share would not average out.
        seed = (self.seed << 32) + self.index
        options: dict[str, Any] = {
            "truncate": True,
            "seed": seed,
            "directions": self.directions,
            "recorded": self.trace,
            "others": self.others,
        }
        if self.answer is not None:
            return Subject.of(self.model, self.answer, **options)
        return Subject(self.model, self.example, **options)

    @property
    def attribution(self) -> xr.Dataset:
        """Hidden Token Attribution of the example, computed once for all measures."""
        return self.subject.attribution


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
