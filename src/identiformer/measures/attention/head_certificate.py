"""A certificate of one head: certified bounds of its most ambiguous row, and a patched run with an alternative."""

import json

import numpy as np
import xarray as xr
from torch import Tensor

from identiformer.measures.attention.ambiguity import ambiguity
from identiformer.measures.attention.identifiability import attention_identifiability
from identiformer.measures.attention.moved_weight import change_of_output
from identiformer.models import Model
from identiformer.passage import Passage, Readable
from identiformer.results import describe


def certify_head(
    model: Model,
    text: Readable,
    layer: int,
    head: int,
    *,
    kind: str | None = None,
    progress: bool = False,
    tensor: Tensor | None = None,
) -> xr.Dataset:
    """Certify the largest weight of every row of a head, and patch the model with an alternative for the most ambiguous row.

    Parameters
    ----------
    model : Model
    text : str, Answer, Tensor, Trace or Passage
        What the model reads, or has read: a trace of it with recorded weights, or a passage.
    layer, head : int
        The head; layers count from 1, heads from 0.
    kind : str, optional
        Attention type; the first of the trace by default.
    progress : bool
        Whether to show a progress bar.
    tensor : torch.Tensor, optional
        The image or audio of the trace.

    Returns
    -------
    xarray.Dataset
        The `ambiguity` of the row whose largest weight can change most; of special tokens only if there are no others. Of the
        head: `rows`, and in how many of them the largest weight is the largest in all attention with the same output,
        `rows_certified`, and every small change of the query changes the output, `rows_key_constrained`, if keys and queries
        alone make the weights. Of the row: `heads_nullity`, the dimensions of all heads' weights that leave the head's output
        unchanged, summed over heads, and `layer_nullity`, those that leave the layer's output unchanged, if its projection is
        known. `patched_alternative`, the alternative that was patched in, and `patched_total_variation`, its distance; the
        largest change of the model's output: `patched`, `control`, with a random change of the same size, and `floor`, with the
        model's own weights; and its `scale`.

    Examples
    --------
    >>> import identiformer as idf
    >>> model = idf.load("minilm")
    >>> certificate = idf.certify_head(model, model.trace("He said that the pie was his."), layer=4, head=3)
    >>> bool(certificate.rows_certified == certificate.rows)
    True
    """
    passage = Passage.of(model, text, kind=kind, tensor=tensor)
    trace = passage.recorded
    rows = ambiguity(trace, layer, head, top=1, alternatives=False, kind=kind, progress=progress)
    queries = trace.stack(kind).queries
    width = np.nanmax(rows.high_reached.values - rows.low_reached.values, axis=1)
    ordinary = ~np.array(queries.special)
    query = int(np.where(ordinary if ordinary.any() else True, width, -1.0).argmax())
    result = ambiguity(trace, layer, head, queries=query, kind=kind, progress=False)
    row = result.isel(query=0)
    alternative = "rival" if row.rival >= 0 else str(row.total_variation.idxmax("alternative").values)
    patched = trace.layer(layer, kind).recorded().head(head).weights.double().numpy().copy()
    patched[query] = row.alternatives.sel(alternative=alternative).values
    rerun = passage.rerun({(layer, head): patched})
    nullities = attention_identifiability(trace, layer, kind=kind)
    numbers = {
        "rows": len(queries),
        "rows_certified": int(rows.argmax_certified.sum()),
        "patched_alternative": alternative,
        "patched_total_variation": float(row.total_variation.sel(alternative=alternative)),
        **change_of_output(rerun),
        **{name: int(nullities[name][query]) for name in ("heads_nullity", "layer_nullity") if name in nullities},
    }
    if "key_constrained_identifiable" in nullities:
        numbers["rows_key_constrained"] = int(nullities.key_constrained_identifiable[head].sum())
    return describe(result.assign(numbers), "certify_head", trace.source, json.loads(result.attrs["settings"]))
