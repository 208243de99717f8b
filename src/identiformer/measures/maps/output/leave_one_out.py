"""Leave one out: how much the output drops without one token. It measures the removal that other explanations predict."""

import torch
from torch import Tensor

from identiformer.measures.maps.kind import MapKind
from identiformer.models.interventions.input_removal import outputs_without
from identiformer.passage import Passage


def leave_one_out(passage: Passage) -> Tensor:
    """f(x) - f(x without token j), with the mask token or another placeholder in its place."""
    target, removed = passage.target, torch.eye(len(passage.tokens), dtype=torch.bool)
    values = torch.empty(len(removed), dtype=torch.float64)
    for copies, result, _ in outputs_without(passage.model, target.replica(passage.model), passage.batch, removed, "mask"):
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
