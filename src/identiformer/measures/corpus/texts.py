"""How many texts and tokens a corpus has, how long its texts are, and how many were cut."""

import numpy as np
import xarray as xr

from identiformer.measures.corpus.measure import CorpusMeasure, Observation
from identiformer.measures.corpus.state import State

LONGEST = 512
"""Longer texts are counted under this length."""


def length_place(tokens: int) -> int:
    """Where a text of so many tokens is counted on an axis of lengths."""
    return min(tokens, LONGEST)


def observe(seen: Observation) -> State:
    """Count one text."""
    lengths = np.zeros(LONGEST + 1, dtype=np.int64)
    lengths[length_place(len(seen.tokens))] = 1
    return State(
        {
            "examples": np.array(1),
            "tokens": np.array(len(seen.tokens)),
            "cut": np.array(int(seen.cut)),
            "long_words": np.array(int(seen.long_words)),
            "pairs": np.array(int(seen.example.pair is not None)),
            "lengths": lengths,
        }
    )


def finalize(state: State) -> xr.Dataset:
    """The counts."""
    variables = {name: ((), state[name]) for name in ("examples", "tokens", "cut", "long_words", "pairs")}
    return xr.Dataset({**variables, "lengths": (("length",), state["lengths"])}, {"length": np.arange(LONGEST + 1)})


TEXTS = CorpusMeasure("texts", observe, finalize, needs_trace=False)
