"""Leave one out: how much the output drops without one token. It measures the removal that other explanations predict."""

import torch
from torch import Tensor

from identiformer.measures.maps.kind import MapKind
from identiformer.measures.maps.subject import Subject
from identiformer.models.interventions.input_removal import outputs_without


def leave_one_out(subject: Subject) -> Tensor:
    """f(x) - f(x without token j), with the mask token or another placeholder in its place."""
    target, removed = subject.target, torch.eye(len(subject.tokens), dtype=torch.bool)
    values = torch.empty(len(removed), dtype=torch.float64)
    for copies, result, _ in outputs_without(subject.model, target.replica(subject.model), subject.batch, removed, "mask"):
        values[copies] = target.value(result).cpu()
    return target.unchanged - values


LEAVE_ONE_OUT = MapKind(
    name="leave_one_out",
    title="leave one out",
    formula="f(x) - f(x with token j masked)",
    paper="Li et al. (2016)",
    cost="1 per token",
    compute=leave_one_out,
    needs="a mask token, or another placeholder",
    signed=True,
    cheap=False,
    explains_output=True,
)
