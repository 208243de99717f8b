"""Interventions on attention sinks: remove what they write, or give their weight to the other keys."""

import torch
import xarray as xr
from torch import Tensor

from identiformer.equations.attention.contributions import head_contributions, is_sink
from identiformer.models import Model
from identiformer.passage import Passage, Readable
from identiformer.results import describe


def sink_effects(
    model: Model, text: Readable, layer: int, head: int, *, kind: str | None = None, tensor: Tensor | None = None
) -> xr.Dataset | None:
    """Remove and redistribute the weight on a head's attention sinks, in patched runs; None if it has no sinks.

    *Removing* takes the sinks' part away and redistributes nothing; it should leave the output. *Redistributing* gives their
    weight to the other keys of the row, in proportion; it should multiply the head's output o by 1/(1 - a_sink).

    Parameters
    ----------
    model : Model
    text : str, Answer, Tensor, Trace or Passage
        What the model reads, or has read: a trace of it with recorded weights, or a passage.
    layer, head : int
        The head; layers count from 1, heads from 0.
    kind : str, optional
        Attention type; the first of the trace by default.
    tensor : torch.Tensor, optional
        The image or audio of the trace.

    Returns
    -------
    xarray.Dataset
        Single numbers. Medians over the `rows` with a sink: `removed_change`, ‖o' - o‖/‖o‖ after removal; `predicted_scale`,
        1/(1 - a_sink), and `measured_scale`, ⟨o', o⟩/‖o‖² after redistribution. `removed_output` and `redistributed_output`: the
        largest change of the model's output.

    Examples
    --------
    >>> import identiformer as idf
    >>> model = idf.load("minilm")
    >>> effects = idf.sink_effects(model, model.trace("He said that the pie was his."), layer=5, head=8)
    >>> bool(effects.removed_change < 0.1)
    True
    """
    passage = Passage.of(model, text, kind=kind, tensor=tensor)
    one = passage.recorded.layer(layer, kind).recorded().head(head)
    weights, values, projection = one.weights.double(), one.values.double(), one.projection
    projection = None if projection is None else projection[None].double()
    shares = head_contributions(weights[None], values[None], projection)
    sinks = is_sink(weights[None], shares.contribution, shares.norm_share)[0]
    rows = sinks.any(-1)
    if not bool(rows.any()):
        return None
    removed = weights.masked_fill(sinks, 0)
    left = removed.sum(-1, keepdim=True)
    # A row with nothing but sinks has nothing to give their weight to.
    redistributed = torch.where(left > 0, removed * weights.sum(-1, keepdim=True) / left, weights)
    written = values if projection is None else values @ projection[0]
    output, without, scaled = (each[rows] @ written for each in (weights, removed, redistributed))
    squared = output.square().sum(-1)
    patches = [{(layer, head): patch} for patch in (removed, redistributed)]
    runs = [passage.rerun(patch, allow_non_simplex=True, control=False).output for patch in patches]
    numbers = {
        "rows": int(rows.sum()),
        "removed_change": float(((without - output).norm(dim=-1) / squared.sqrt()).median()),
        "predicted_scale": float((weights.sum(-1) / left[:, 0])[rows].median()),
        "measured_scale": float(((scaled * output).sum(-1) / squared).median()),
        "removed_output": runs[0].patched,
        "redistributed_output": runs[1].patched,
    }
    result = xr.Dataset(numbers, {"layer": layer, "head": head})
    return describe(result, "sink_effects", passage.trace.source, {"kind": passage.stack.kind})
