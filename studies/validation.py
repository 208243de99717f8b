"""Do the categories of weight hold? Free weight is moved, sinks and readable weights are removed, each next to a control.

One row of a random head in six random layers of each text; if none of them has a sink, also one row that has. A control is a
change of the same row of the same size: a random change that sums to zero for free weight; for removed keys, the same weight
taken off random other keys. Those keys usually have less, so their weight becomes negative and the control leaves the simplex: it
decides little. Readable weight is therefore also compared with the removal of a key of comparable weight.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import identiformer as idf
from identiformer.equations import head_contributions
from identiformer.equations.attention.contributions import is_sink
from identiformer.models import Model
from identiformer.texts import Example
from identiformer.trace import Trace
from studies.interventions import RowUnderTest
from studies.patched_runs import PatchedRuns
from studies.tables import Row, column, markdown
from studies.texts import read_texts

LAYERS = 6
DIRECTIONS = 2
"""Random directions of self-contributions, which here only select the key that is removed."""
MOST_LAYERS = 12
"""Deeper models take too long to attribute for many texts; all their content counts as the token's own."""
REQUIRED = {
    "free": ("free: moved", 0.01, "≤"),
    "sink": ("sink: removed", 0.1, "≤"),
    "redistributed": ("sink: redistributed", 0.05, "≤"),
    "readable": ("readable: removed", 1.0, "≥"),
    "writing": ("readable: removed, in heads that write", 1.0, "≥"),
    "comparable": ("readable: removed, against a key of comparable weight", 1.0, "≥"),
}
"""The median ratio of the change to that of the control; of redistributed weight, the relative error of the predicted scale."""
WRITING = 0.1
"""A head writes in a row if its share of the layer's output is at least this part of an equal share."""


def measure(name: str, data: Path, pairs: int) -> Iterator[Row]:
    """One row per intervention: which, where, how much weight, the change of the model's output and that of the control."""
    model = idf.load(name)
    for number, example in enumerate(read_texts(model, data, pairs)):
        generator = np.random.default_rng([0, number])
        trace = model.trace(example.text, example.pair, truncate=True, form="weights")
        own_content, runs = _own_content(model, example, trace), PatchedRuns(model, trace)
        layers, queries = trace.stack().layers, np.flatnonzero(~np.array(trace.stack().queries.special))
        sinks = 0
        for index in sorted(generator.choice(len(layers), min(LAYERS, len(layers)), replace=False).tolist()):
            head, query = int(generator.integers(layers[index].heads)), int(generator.choice(queries[queries > 0]))
            row = RowUnderTest(trace, runs, index + 1, head, query, generator)
            for found in (*row.free(), *row.sink(), *row.readable(own_content[index])):
                sinks += found["kind"] == "sink"
                yield _located(number, row, found)
        if not sinks:
            yield from _drawn_sink(number, trace, runs)


def _located(text: int, row: RowUnderTest, found: Row) -> Row:
    layer, head = row.at
    place = {"text": text, "layer": layer, "head": head, "query": row.query}
    return {**place, "equal_shares": row.output_share * row.layer.heads, **found}


def _drawn_sink(text: int, trace: Trace, runs: PatchedRuns) -> Iterator[Row]:
    """Intervene on one of all rows with a sink: random rows of a model in which they are rare would have none."""
    generator = np.random.default_rng([2, text])
    rows: list[tuple[int, int, int]] = []
    for layer in trace.stack().layers:
        record = layer.recorded()
        found = head_contributions(record.weights.double(), record.values.double(), record.projection)
        sinks = is_sink(record.weights.double(), found.contribution, found.norm_share).any(-1)
        rows += [(layer.number, head, query) for head, query in sinks.nonzero().tolist()]
    if rows:
        row = RowUnderTest(trace, runs, *rows[int(generator.integers(len(rows)))], generator)
        for found in row.sink():
            yield _located(text, row, found)


def _own_content(model: Model, example: Example, trace: Trace) -> Tensor:
    """Self-contribution of the vectors that the keys of each layer are made of (layer key)."""
    layers, keys = len(trace.stack().layers), len(trace.stack().keys)
    shares = torch.ones(layers, keys, dtype=torch.float64)
    if 1 < layers <= MOST_LAYERS:
        inner = list(range(1, layers))
        found = idf.token_attribution(model, example.text, example.pair, layers=inner, directions=DIRECTIONS, truncate=True)
        shares[1:] = torch.from_numpy(found.self_contribution.values)
    return shares


def _cases(rows: list[Row], kind: str) -> list[Row]:
    if kind == "writing":
        return [row for row in rows if row["kind"] == "readable" and row["equal_shares"] >= WRITING]
    return [row for row in rows if row["kind"] == kind]


def report(measured: dict[str, list[Row]], _: Path) -> str:
    """One line per model and kind: medians, and quartiles of the ratio to the control (of the error of the scale)."""
    lines = []
    for model, rows in measured.items():
        texts = len(set(column(rows, "text")))
        for kind, (label, bound, sign) in REQUIRED.items():
            cases = _cases(rows, kind)
            if not cases:
                continue
            patched, control = column(cases, "patched"), column(cases, "control")
            ratio = np.abs(patched / control - 1) if kind == "redistributed" else patched / control
            low, middle, high = np.quantile(ratio, (0.25, 0.5, 0.75))
            holds = middle <= bound if sign == "≤" else middle >= bound
            changes = [f"{np.median(each):.2g}" for each in (patched, control)]
            quartiles = f"{middle:.3g} ({low:.2g} to {high:.2g})"
            lines.append(
                [model, str(texts), label, str(len(cases)), *changes, quartiles, f"{sign} {bound:g}", "yes" if holds else "no"]
            )
    return markdown(
        ("model", "texts", "intervention", "rows", "change", "control", "ratio (quartiles)", "required", "holds"), lines
    )
