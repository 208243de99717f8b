"""Whether bounds certified in bfloat16 hold for the attention of the same model in float32.

Three heads of each text are read in both precisions. A bound fails where it excludes the float32 weight. `excluded` is the share
of weights that fail, by tolerance; `moved` is the total variation between the attention rows of the two runs.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

import identiformer as idf
from studies.tables import Row, column, markdown
from studies.texts import read_texts

TOLERANCES = (1e-4, 1e-3, 1e-2)
HEADS = 3
ROUNDING = 1e-6


def measure(name: str, data: Path, pairs: int) -> Iterator[Row]:
    """One row per text, head and tolerance of the run in bfloat16."""
    exact, half = (idf.load(name, dtype=dtype) for dtype in ("float32", "bfloat16"))
    for number, example in enumerate(read_texts(exact, data, pairs)):
        traces = [model.trace(example.text, example.pair, truncate=True, form="weights") for model in (exact, half)]
        ranks = [idf.effective_attention(trace, matrices=False, spectrum=False)["rank"].values for trace in traces]
        generator = np.random.default_rng([2, number])
        layers = traces[0].stack().layers
        for layer in sorted(generator.choice(len(layers), HEADS, replace=False) + 1):
            chosen = {"layers": int(layer), "heads": int(generator.integers(layers[0].heads)), "processes": 1}
            precise = idf.attention_reading(traces[0], **chosen)
            for tolerance in TOLERANCES:
                read = idf.attention_reading(traces[1], tolerance=tolerance, **chosen)
                outside = (read.low > precise.weight + ROUNDING) | (read.high < precise.weight - ROUNDING)
                yield {
                    "text": number,
                    "tolerance": tolerance,
                    "certified": float(read.certified.mean()),
                    "float32": float(precise.certified.mean()),
                    "excluded": float(outside.sum() / (precise.weight > 0).sum()),
                    "moved": float(abs(read.weight - precise.weight).sum("key").mean() / 2),
                    "same_rank": float((ranks[0] == ranks[1]).mean()),
                }


def report(measured: dict[str, list[Row]], out: Path) -> str:
    """One line per model and tolerance: means over texts and heads."""
    lines = []
    for model, rows in measured.items():
        for tolerance in TOLERANCES:
            chosen = [row for row in rows if np.isclose(row["tolerance"], tolerance)]
            means = {name: column(chosen, name).mean() for name in chosen[0]}
            shares = [f"{means[name]:.2%}" for name in ("certified", "float32", "excluded", "moved", "same_rank")]
            lines.append([model, str(len(set(column(chosen, "text")))), f"{tolerance:.0e}", *shares])
    measured_shares = ("certified in bfloat16", "in float32", "bounds that fail", "weight moved", "same rank")
    return markdown(("model", "texts", "tolerance", *measured_shares), lines)
