"""How much is certified, and how much the model's output changes, for every tolerance from 1e-6 to 1e-1.

In six random heads of each text, eight rows are certified and patched with the farthest alternative of that tolerance, all in
one run. The output changes by 1 - cos of the last hidden vectors for an encoder, and by the Kullback-Leibler divergence of the
next token for a language model (logits by the tied embedding, if the network was loaded without its head); both are means over
positions. `rounding` is how far the unpatched output is from that of a more precise run.
"""

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import torch
import xarray as xr
from matplotlib.figure import Figure
from torch import Tensor

import identiformer as idf
from identiformer.equations import farthest_alternative, feasible_sets, map_bounds
from identiformer.equations.attention.heads import group_of
from identiformer.figures import draw_tolerance
from identiformer.models.interventions.patching import Weights
from identiformer.trace import Trace
from studies.patched_runs import PatchedRuns
from studies.tables import Row, column, markdown
from studies.texts import read_texts

TOLERANCES = tuple(10.0**power for power in range(-6, 0))
MORE_PRECISE = {"float32": "float64", "bfloat16": "float32"}
HEADS, ROWS = 6, 8


def measure(name: str, data: Path, pairs: int) -> Iterator[Row]:
    """One row per text, dtype and tolerance: the certified share, how much weight moved, and the change of the output."""
    models = {dtype: idf.load(name, dtype=dtype) for dtype in ("float64", *MORE_PRECISE)}
    for number, example in enumerate(read_texts(models["float32"], data, pairs)):
        runs: dict[str, PatchedRuns] = {}
        for dtype, model in models.items():
            trace = model.trace(example.text, example.pair, truncate=True, form="weights")
            runs[dtype] = PatchedRuns(model, trace)
            if dtype not in MORE_PRECISE:
                continue
            heads = _draw(trace, np.random.default_rng([1, number]))
            rounding = runs[dtype].distance(runs[dtype].unpatched, runs[MORE_PRECISE[dtype]])
            for tolerance in TOLERANCES:
                found = [_certified_and_patched(trace, *head, tolerance) for head in heads]
                patches: Weights = {head[:2]: weights for head, (_, _, weights) in zip(heads, found, strict=True)}
                yield {
                    "text": number,
                    "output": "KL divergence" if runs[dtype].causal else "1 - cos",
                    "dtype": dtype,
                    "tolerance": tolerance,
                    "certified": float(np.mean([certified for certified, _, _ in found])),
                    "moved": float(np.mean([moved for _, moved, _ in found])),
                    "change": runs[dtype].distance(runs[dtype].output(patches), runs[dtype]),
                    "rounding": rounding,
                }


def _draw(trace: Trace, generator: np.random.Generator) -> list[tuple[int, int, list[int]]]:
    """Some heads, as layer, head and the rows to certify."""
    layers, queries = trace.stack().layers, np.flatnonzero(~np.array(trace.stack().queries.special))
    chosen = sorted(generator.choice(len(layers), min(HEADS, len(layers)), replace=False).tolist())
    rows = [sorted(generator.choice(queries, min(ROWS, len(queries)), replace=False).tolist()) for _ in chosen]
    return [(index + 1, int(generator.integers(layers[index].heads)), of) for index, of in zip(chosen, rows, strict=True)]


def _certified_and_patched(
    trace: Trace, layer: int, head: int, queries: list[int], tolerance: float
) -> tuple[float, float, Tensor]:
    """The certified share of some rows, the share of their weight that moves, and weights with those rows moved."""
    record = trace.layer(layer).recorded()
    values = record.values[group_of(head, record.heads, len(record.values))]
    projection = None if record.projection is None else record.projection[head]
    visible, options = record.visible.rows(torch.tensor(queries)), {"tolerance": tolerance, "projection": projection}
    rows, patched = record.weights[head, queries], record.weights[head].double()
    certified = map_bounds(rows, values, visible, **options).low.nansum(-1) / rows.double().sum(-1)
    for index, keys, feasible in feasible_sets(rows, values, visible, **options):
        patched[queries[index]] = 0
        patched[queries[index], keys] = torch.from_numpy(farthest_alternative(feasible))
    moved = (patched[queries] - rows.double()).abs().sum(-1) / 2
    return float(certified.mean()), float(moved.mean()), patched


def curves(rows: list[Row], model: str) -> xr.Dataset:
    """Quartiles over texts of what was measured, over (dtype, tolerance)."""
    dtypes, quantiles = list(MORE_PRECISE), [0.25, 0.5, 0.75]
    names = ("certified", "change", "moved", "rounding")
    arrays = np.empty((len(names), len(dtypes), len(TOLERANCES), len(quantiles)))
    for dtype, tolerance in product(range(len(dtypes)), range(len(TOLERANCES))):
        chosen = [row for row in rows if row["dtype"] == dtypes[dtype] and np.isclose(row["tolerance"], TOLERANCES[tolerance])]
        for index, name in enumerate(names):
            arrays[index, dtype, tolerance] = np.quantile(column(chosen, name), quantiles)
    coordinates = {"dtype": dtypes, "tolerance": list(TOLERANCES), "quantile": quantiles}
    variables = {name: (("dtype", "tolerance", "quantile"), array) for name, array in zip(names, arrays, strict=True)}
    return xr.Dataset(variables, coordinates, {"model": model, "output": rows[0]["output"]})


def report(measured: dict[str, list[Row]], out: Path) -> str:
    """Draw the curves of all models into tolerance.png; one line per model, dtype and tolerance."""
    figure = Figure(figsize=(4.2 * len(measured), 5.4), layout="constrained")
    panels = figure.subplots(2, len(measured), sharex=True, squeeze=False)
    lines = []
    for (model, rows), axes in zip(measured.items(), panels.T, strict=True):
        found = curves(rows, model)
        draw_tolerance(found, list(axes))
        texts = str(len(set(column(rows, "text"))))
        for dtype, tolerance in product(MORE_PRECISE, TOLERANCES):
            cell = found.sel({"dtype": dtype, "tolerance": tolerance, "quantile": 0.5})
            numbers = [f"{float(cell.certified):.2f}", f"{float(cell.moved):.2f}", f"{float(cell.change):.1e}"]
            lines.append([model, texts, dtype, f"{tolerance:.0e}", *numbers, f"{float(cell.rounding):.1e}"])
    figure.savefig(out / "tolerance.png", dpi=130)
    return markdown(("model", "texts", "dtype", "tolerance", "certified", "moved", "change", "rounding"), lines)
