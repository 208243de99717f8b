"""What a measure over a corpus is: how it looks at one example, and what it tells of all of them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import xarray as xr

from identiformer.measures.attribution.hidden_token import token_attribution
from identiformer.measures.corpus.state import State
from identiformer.models import Model
from identiformer.texts import Example, Survey
from identiformer.tokens import Tokens
from identiformer.trace import Trace


@dataclass(frozen=True, eq=False)
class Observation:
    """One example in its place in the corpus, as a model saw it."""

    model: Model
    example: Example
    index: int
    """Its number in the corpus, from 0."""
    directions: int
    seed: int
    tokens: Tokens
    cut: bool
    """Whether some of the text was left out: tokens beyond the largest length, or words too long for the tokenizer."""
    long_words: bool
    """Whether a word is longer than the tokenizer reads, so that one unknown token takes its place."""
    trace: Trace | None
    """The forward pass, where a measure needs it."""

    @property
    def recorded(self) -> Trace:
        assert self.trace is not None
        return self.trace

    @cached_property
    def attribution(self) -> xr.Dataset:
        """Hidden Token Attribution of the example; computed once, whichever measures look at it."""
        # Probes of its own for each text: errors that all texts share would not average out.
        seed = (self.seed << 32) + self.index
        example = self.example
        return token_attribution(self.model, example.text, example.pair, directions=self.directions, seed=seed, truncate=True)


@dataclass(frozen=True)
class CorpusMeasure:
    """A monoid over texts: `observe` gives the state of one example, states merge, `finalize` turns one into a result."""

    name: str
    observe: Callable[[Observation], State]
    finalize: Callable[[State], xr.Dataset]
    needs_trace: bool = True
    cheap: bool = True
    """Whether it takes no longer than the forward pass."""
    packages: Callable[[Survey], tuple[str, ...]] = lambda _: ()
    """Packages beyond the core that its numbers depend on with a corpus: their versions are settings of a run. Raises where
    something is missing; asked before a run begins."""
