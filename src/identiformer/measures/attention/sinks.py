"""Interventions on attention sinks: remove what they write, or give their weight to the other keys."""

from dataclasses import dataclass

import torch
from torch import Tensor

from identiformer.equations.attention.contributions import head_contributions, is_sink
from identiformer.equations.attention.heads import group_of
from identiformer.models import Model
from identiformer.models.interventions.patching import Change
from identiformer.trace import Trace


@dataclass(frozen=True)
class SinkEffects:
    """What two interventions on the sinks of a head change; changes of the head's output are medians over rows with a sink.

    *Removing* takes the sinks' part away and redistributes nothing; it should leave the output. *Redistributing* gives their
    weight to the other keys of the row, in proportion; it should multiply the head's output by 1/(1 - a_sink).
    """

    rows: int
    removed_change: float
    """‖o' - o‖/‖o‖."""
    predicted_scale: float
    """1/(1 - a_sink)."""
    measured_scale: float
    """⟨o', o⟩/‖o‖² after redistribution."""
    removed_output: Change
    """Of the model's output, after removal."""
    redistributed_output: Change

    def sentence(self) -> str:
        """The two interventions, in a sentence."""
        return (
            f"Removing what the sink writes changes this head's output by {self.removed_change:.1%} and the model's by "
            f"{self.removed_output.patched:.1g}; giving its weight to the other keys multiplies the head's output by "
            f"{self.measured_scale:.2f} (predicted {self.predicted_scale:.2f}) and changes the model's by "
            f"{self.redistributed_output.patched:.1g}."
        )


def sink_effects(
    model: Model, trace: Trace, layer: int, head: int, *, kind: str | None = None, tensor: Tensor | None = None
) -> SinkEffects | None:
    """Remove and redistribute the weight on a head's attention sinks, in patched runs; None if it has no sinks.

    Parameters
    ----------
    model : Model
    trace : Trace
        Of the model, with recorded weights.
    layer, head : int
        The head; layers count from 1, heads from 0.
    kind : str, optional
        Attention type; the first of the trace by default.
    tensor : torch.Tensor, optional
        The image or audio of the trace.

    Returns
    -------
    SinkEffects

    Examples
    --------
    >>> import identiformer as idf
    >>> model = idf.load("minilm")
    >>> effects = idf.sink_effects(model, model.trace("He said that the pie was his."), layer=5, head=8)
    >>> effects.removed_change < 0.1
    True
    """
    record = trace.layer(layer, kind).recorded()
    group = group_of(head, record.heads, len(record.values))
    weights, values = record.weights[head].double(), record.values[group].double()
    projection = None if record.projection is None else record.projection[head : head + 1].double()
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
    runs = [model.rerun(trace, patch, kind=kind, allow_non_simplex=True, tensor=tensor).output for patch in patches]
    return SinkEffects(
        rows=int(rows.sum()),
        removed_change=float(((without - output).norm(dim=-1) / squared.sqrt()).median()),
        predicted_scale=float((weights.sum(-1) / left[:, 0])[rows].median()),
        measured_scale=float(((scaled * output).sum(-1) / squared).median()),
        removed_output=runs[0],
        redistributed_output=runs[1],
    )
