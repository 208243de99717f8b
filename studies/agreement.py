"""Which map predicts the effect of removing a token from a layer: raw, effective, or the contributions to its output.

The yardstick is value zeroing; the score is the correlation of rows, a mean over the rows and layers of a text.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

import identiformer as idf
from identiformer.measures.attribution.value_zeroing import MAPS
from studies.tables import Row, column, markdown
from studies.texts import read_texts

DRAWS = 2000
SOURCES = {"all": True, "words": False}
"""Whether special tokens count as sources."""


def measure(name: str, data: Path, pairs: int) -> Iterator[Row]:
    """One row per text and choice of sources: the mean row correlation of each map with value zeroing."""
    model = idf.load(name)
    for number, example in enumerate(read_texts(model, data, pairs)):
        special = any(model.tokens(example.text, example.pair, truncate=True).special)
        for sources, counted in SOURCES.items():
            if counted or special:  # otherwise the two are the same
                found = idf.value_zeroing(model, example.text, example.pair, special=counted, truncate=True)
                scores = {of: float(found[f"{of}_agreement"].mean("target").mean("layer")) for of in MAPS}
            yield {"text": number, "tokens": found.sizes["target"], "sources": sources, **scores}


def interval(scores: np.ndarray) -> tuple[float, float]:
    """The 95% bootstrap interval of a mean over texts."""
    draws = np.random.default_rng(0).choice(scores, (DRAWS, len(scores))).mean(1)
    low, high = np.quantile(draws, (0.025, 0.975))
    return float(low), float(high)


def report(measured: dict[str, list[Row]], _: Path) -> str:
    """One line per model and choice of sources: mean and bootstrap interval of each map."""
    lines = []
    for model, rows in measured.items():
        for sources in SOURCES:
            texts = [row for row in rows if row["sources"] == sources]
            cells = [model, str(len(texts)), f"{np.median(column(texts, 'tokens')):.0f}", sources]
            for of in MAPS:
                scores = column(texts, of)
                low, high = interval(scores)
                cells.append(f"{scores.mean():.2f} ({low:.2f} to {high:.2f})")
            lines.append(cells)
    header = ("model", "texts", "tokens (median)", "sources", "raw", "effective", "layer contribution")
    return markdown(header, lines)
