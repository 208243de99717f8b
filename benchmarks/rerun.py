"""Models run with the farthest attention found that gives the same output, against a random change of the same size."""

import statistics
from pathlib import Path

import numpy as np

import identiformer as idf
from benchmarks.harness import SHARED, report
from benchmarks.prose import prose

TEXTS, TOKENS, FAR = 10, 110, 0.1
BESIDE = SHARED / "models" / "gte-small"


def run() -> None:
    for name in ("minilm", "smollm2", *([str(BESIDE)] if BESIDE.is_dir() else [])):
        measure(name)


def measure(name: str) -> None:
    """Ten texts, a layer each, its most even head; all rows that can move by a tenth are moved."""
    model = idf.load(name)
    label = Path(name).name
    ratios = []
    for number in range(TEXTS):
        trace = model.trace(prose(model.tokenizer, TOKENS, skip=400 * number))
        layers = trace.stack().layers
        layer = 1 + number * (len(layers) - 1) // (TEXTS - 1)
        head = int(layers[layer - 1].weights.amax(-1).mean(-1).argmin())
        found = idf.ambiguity(trace, layer, head, top=1, exact=True)
        far = found.total_variation.sel(alternative="farthest").values >= FAR
        if not far.any():
            print(f"          —  {label}, layer {layer}, head {head}: no row can move by {FAR:g}", flush=True)
            continue
        rows = np.where(far[:, None], found.alternatives.sel(alternative="farthest").values, found.raw.values)
        output = model.rerun(trace, {(layer, head): rows}).output
        ratios.append(output.control / output.patched)
        print(
            f"     {ratios[-1]:8.3g}  {label}, layer {layer}, head {head}: {far.sum()} of {len(far)} rows moved; output changed "
            f"by {output.patched:.1g}, control {output.control:.1g}, own weights put back {output.floor:.1g}",
            flush=True,
        )
    report(f"{label}: times less than a random change of the same size, median", statistics.median(ratios), 1000, False)
