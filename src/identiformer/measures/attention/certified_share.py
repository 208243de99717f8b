"""Of how many rows of every head the largest weight is certain."""

import numpy as np
import xarray as xr

from identiformer.errors import InputError
from identiformer.measures.attention.ambiguity import ambiguity
from identiformer.measures.selection import Numbers, chosen
from identiformer.progress import WorkBar, work_bar
from identiformer.results import describe
from identiformer.trace import Trace


def certified_share(
    trace: Trace,
    *,
    layers: Numbers | None = None,
    rows: int = 4,
    seed: int = 0,
    kind: str | None = None,
    progress: bool | WorkBar = False,
) -> xr.Dataset:
    """Of some rows of every head, in how many the largest weight is the largest in every attention with the same output. §3.1.

    Over (layer head): `certified`, their share; `width`, the mean length of the interval in which the largest weight lies.
    rows: how many, drawn by chance, the same of every head; those of special tokens only where there are no others.
    """
    own = trace.stack(kind)
    if rows < 1:
        raise InputError(f"expected rows to be at least 1, got {rows}.")
    records = [own.layers[number - 1] for number in chosen(layers, len(own.layers), "layer", first=1)]
    ordinary = [place for place, special in enumerate(own.queries.special) if not special] or list(range(len(own.queries)))
    drawn = sorted(np.random.default_rng(seed).choice(ordinary, min(rows, len(ordinary)), replace=False).tolist())
    certified = np.zeros((len(records), records[0].heads))
    width = np.zeros_like(certified)
    with work_bar("certifying", progress) as bar:
        bar.expect(certified.size)
        for at, layer in enumerate(records):
            for head in range(layer.heads):
                found = ambiguity(trace, layer.number, head, query=drawn, top=1, alternatives=False, kind=kind)
                certified[at, head] = float(found.argmax_certified.mean())
                width[at, head] = float(np.nanmax(found.high.values - found.low.values, axis=1).mean())
                bar.advance(1)
    result = xr.Dataset(
        {"certified": (("layer", "head"), certified), "width": (("layer", "head"), width)},
        {"layer": [layer.number for layer in records], "head": np.arange(records[0].heads)},
    )
    return describe(result, "certified_share", trace.source, {"kind": own.kind, "rows": drawn, "seed": seed})
