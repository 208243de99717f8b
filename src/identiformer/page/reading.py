"""The reading of a text as the page shows it: a category and a sentence per head, and the self-contributions of tokens."""

from collections.abc import Sequence
from typing import Any

from identiformer.readings.heads import head_categories, head_sentences
from identiformer.readings.reading import Reading
from identiformer.typed_json import finite_or_null

SHOWN_DIGITS = 4
"""Decimal places of the numbers that the page shows."""


def reading_panel(reading: Reading, layers: Sequence[int], heads: int) -> dict[str, Any]:
    """The reading by layer and head; heads that were not read have neither a category nor a sentence."""
    result, filled = reading.result, {"sink_key": -1, "top_key": -1, "bounded": False}
    names = [name for name in result.data_vars if "query" not in result[name].dims]
    numbers: Any = result[names].reindex({"layer": list(layers), "head": range(heads)}, fill_value=filled)
    bounded = numbers.bounded.values
    shares = {name: numbers[name] for name in ("readable", "contributing", "certified", "sink_share")}
    shares["certified"] = shares["certified"].where(bounded)
    return {
        "sentences": reading.overview(),
        "rows": result["query"].values.tolist(),
        "categories": [[name or None for name in row] for row in head_categories(numbers).values.tolist()],
        "head_sentences": head_sentences(numbers, result.key_token.values.tolist(), bounded),
        "numbers": {
            name: finite_or_null(values.values, SHOWN_DIGITS) for name, values in shares.items() if values.notnull().any()
        },
        "own": finite_or_null(numbers.self_contribution.values, SHOWN_DIGITS),
        "sinks": numbers.sink_key.values.tolist(),
        "certified": bounded.tolist(),
    }
