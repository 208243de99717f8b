"""Contributions against the forward pass, and certified bounds of whole maps against solving every bound."""

import numpy as np
import torch

import identiformer as idf
from benchmarks.harness import bare_pass, report, side_by_side
from benchmarks.prose import prose
from identiformer.equations import contributions, map_bounds
from identiformer.equations.attention.heads import group_of
from identiformer.texts import PASSAGE

SOLVED_ROWS = 4
"""Rows of each head whose bounds are all solved; the time of the others is extrapolated."""


def run() -> None:
    all_contributions()
    whole_maps("minilm", [(1, 9), (3, 8), (5, 8), (2, 6)], 4.0)
    whole_maps("smollm2", [(10, 3), (20, 5)], 2.5)
    everything()


def all_contributions() -> None:
    """The contributions of all heads of minilm at 256 tokens, over a forward pass."""
    model = idf.load("minilm")
    text = prose(model.tokenizer, 256)
    records = [layer.recorded() for layer in model.trace(text).stack().layers]

    def ours() -> None:
        for record in records:
            contributions(record.weights, record.values, record.projection)

    times = side_by_side({"ours": ours, "forward": bare_pass(model, text)}, 9)
    report("contributions of all heads, 256 tokens, over a forward pass", times["ours"] / times["forward"], 0.15, True)


def whole_maps(name: str, heads: list[tuple[int, int]], limit: float) -> None:
    """All rows of some heads, one process, against `ambiguity`, which solves the bounds of every weight."""
    model = idf.load(name)
    trace = model.trace(PASSAGE)
    rows = np.linspace(0, len(trace.tokens) - 1, SOLVED_ROWS + 2).astype(int)[1:-1].tolist()
    solved, screened = {}, {}

    def solve() -> None:
        for layer, head in heads:
            solved[layer, head] = idf.ambiguity(trace, layer, head, queries=rows, alternatives=False).low.sum("key").values

    def screen() -> None:
        for layer, head in heads:
            record = trace.layer(layer).recorded()
            values = record.values[group_of(head, record.heads, len(record.values))]
            bounds = map_bounds(record.weights[head], values, record.visible, projection=record.projection[head])
            screened[layer, head] = bounds.low[rows].nansum(-1).numpy()

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in each of the processes that certify heads
    times = side_by_side({"solve": solve, "screen": screen}, 1)
    torch.set_num_threads(threads)
    ratio = times["solve"] * len(trace.tokens) / SOLVED_ROWS / times["screen"]
    detail = f"{times['screen'] / len(heads):.1f} s a head of {len(trace.tokens)} tokens"
    report(f"{name}: whole maps, times faster than solving every bound", ratio, limit, False, detail)
    missing = max(float((solved[head] - screened[head]).max()) for head in heads)
    report(f"{name}: certified mass of a row that screening misses", missing, 0.02, True)


def everything() -> None:
    """All 72 heads of minilm on the demo text, in two processes; timed once."""
    trace = idf.load("minilm").trace(PASSAGE)
    idf.attention_reading(trace, layers=1, heads=[0, 1], processes=2)  # processes start
    seconds = side_by_side({"reading": lambda: idf.attention_reading(trace, processes=2)}, 1)["reading"]
    print(f"             cascade of every head and row of the demo text, two processes: {seconds:.0f} s")
