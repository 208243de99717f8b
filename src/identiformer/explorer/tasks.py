"""What a page can ask for that takes a while, as functions of an opened text."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from identiformer.errors import InputError
from identiformer.explorer.parsing import row_of, shown, whole
from identiformer.explorer.texts import OpenText
from identiformer.measures import ambiguity, certified_share, token_attribution
from identiformer.page.attribution import origins_of
from identiformer.page.certificate import rerun_of, verdict_of
from identiformer.progress import WorkBar

Task = Callable[[WorkBar], Any]

ROUNDING = 1e-6
"""Of each weight on its way to the page and back."""


def task_of(text: OpenText, asked: Mapping[str, Any]) -> Task:
    """The work that a page asks for by name."""
    kind = asked.get("kind")
    if kind == "attribute":
        return lambda bar: _attribute(text, bar)
    if kind == "certify heads":
        return lambda bar: certified_share(text.trace, kind=text.kind, progress=bar).certified.values.tolist()
    layer, head, query = (whole(asked.get(name), name) for name in ("layer", "head", "query"))
    if kind == "certify":
        return lambda bar: verdict_of(ambiguity(text.trace, layer, head, query=query, kind=text.kind, progress=bar))
    if kind == "rerun":
        row, name = row_of(asked), str(asked.get("alternative"))
        return lambda bar: _rerun(text, layer, head, query, name, row, bar)
    raise InputError(f"expected one of certify, certify heads, rerun, attribute, got {shown(kind)}.")


def _rerun(text: OpenText, layer: int, head: int, query: int, name: str, row: np.ndarray, bar: WorkBar) -> dict[str, Any]:
    """Run the model with another row in one head, and compare."""
    weights = text.trace.layer(layer, text.kind).recorded().weights
    if not 0 <= head < len(weights) or not 0 <= query < weights.shape[1] or len(row) != weights.shape[2]:
        raise InputError(f"expected a head, a query and a row of {weights.shape[2]} weights that this text has.")
    patched = weights[head].double().numpy().copy()
    total = patched[query].sum()
    if abs(row.sum() - total) > ROUNDING * len(row):
        raise InputError(f"expected a row of weights that sums to {total:.4g}, got {row.sum():.4g}; certify the row again.")
    patched[query] = row / row.sum() * total  # rounding on the way must not count as a change
    bar.expect(1)
    done = text.model.rerun(text.trace, {(layer, head): patched}, kind=text.kind)
    return rerun_of(name, done.output)


def _attribute(text: OpenText, bar: WorkBar) -> dict[str, Any]:
    """Where every hidden vector came from: shares of input tokens, at every layer."""
    source = text.trace.source
    found = token_attribution(text.model, source["text"], source.get("pair"), truncate=True, progress=bar)
    return origins_of(found, text.corpus)
