"""The reading of a text as the page shows it: a category and a sentence per head, and how much is the token's own content."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from identiformer.readings import Reading
from identiformer.readings.heads import head_categories, head_sentences
from identiformer.trace import AttentionStack
from identiformer.typed_json import finite_or_null

SHOWN_DIGITS = 4
"""Decimal places of the numbers that the page shows."""


def reading_panel(
    numbers: xr.Dataset,
    key_tokens: Sequence[str],
    certified: np.ndarray,
    layers: Sequence[int],
    heads: int,
    *,
    sentences: Sequence[str],
) -> dict[str, Any]:
    """The reading by layer and head, from `summarize_heads`; `certified` says of which heads bounds were computed.

    Layers and heads that were not read have neither a category nor a sentence.
    """
    every = {"layer": list(layers), "head": range(heads)}
    filled: Any = {"sink_key": -1, "top_key": -1, "bounded": False}
    numbers = numbers.assign(bounded=(("layer", "head"), certified)).reindex(every, fill_value=filled)
    bounded = numbers.bounded.values
    shares = {name: numbers[name] for name in ("readable", "contributing", "certified", "sink_share")}
    shares["certified"] = shares["certified"].where(bounded)
    return {
        "sentences": list(sentences),
        "categories": [[name or None for name in row] for row in head_categories(numbers).values.tolist()],
        "head_sentences": head_sentences(numbers, key_tokens, bounded),
        "numbers": {
            name: finite_or_null(values.values, SHOWN_DIGITS) for name, values in shares.items() if values.notnull().any()
        },
        "own": finite_or_null(numbers.self_contribution.values, SHOWN_DIGITS),
        "sinks": numbers.sink_key.values.tolist(),
        "certified": bounded.tolist(),
    }


def reading_of_page(
    numbers: xr.Dataset, reading: Reading | None, stack: AttentionStack, layers: Sequence[int], heads: int
) -> dict[str, Any]:
    """The panel of a reading, or of heads before certification; `numbers` is its `summarize_heads`."""
    certified = np.zeros(numbers.certified.shape, bool)
    if reading is None:
        reading = Reading(numbers, (), (), ())
    elif reading.certified:
        certified = numbers.certified.notnull().values
    return reading_panel(numbers, stack.keys.texts, certified, layers, heads, sentences=reading.overview())
