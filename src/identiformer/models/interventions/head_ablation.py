"""Run a model with the outputs of some heads set to zero."""

from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch import Tensor

from identiformer.errors import InputError
from identiformer.models.attention.call import Call
from identiformer.models.attention.interface import WEIGHTS, recording
from identiformer.models.encoding.text import Batch
from identiformer.models.loaded import LoadedModel

Head = tuple[int, int]
"""Layer, counted from 1, and head, counted from 0."""
TOKENS_AT_ONCE = 1024


def outputs_without_heads(model: LoadedModel, batch: Batch, ablations: Sequence[Collection[Head]]) -> Tensor:
    """The last hidden states of one text (ablation position width), each time with the outputs of some heads set to zero.

    A head is ablated at all positions, by the same capture as in patched runs. Only models with one attention type.
    """
    if batch.examples != 1 or {site.kind for site in model.sites(batch)} != {"self"}:
        raise InputError("expected one text and a model with self-attention only, got several texts or an encoder-decoder.")
    states = []
    for first in range(0, len(ablations), copies := max(1, TOKENS_AT_ONCE // batch.longest)):
        some = ablations[first : first + copies]
        replica, ablation = model.replica(), _Ablation(some, len(model.sites(batch)))
        inputs = {name: tensor.repeat_interleave(len(some), 0) for name, tensor in batch.inputs.items()}
        with recording(replica, WEIGHTS, ablation):
            states.append(_last_states(model.forward(replica, inputs)))
    return torch.cat(states)


def _last_states(result: Any) -> Tensor:
    return result.last_hidden_state.detach().cpu()


class _Ablation:
    """Sets heads to zero by the number of the call, in one copy of the text per ablation."""

    def __init__(self, ablations: Sequence[Collection[Head]], layers: int) -> None:
        self._ablations, self._layers, self._calls = ablations, layers, 0

    def __call__(self, call: Call) -> Tensor | None:
        self._calls += 1
        for layer, head in {head for ablation in self._ablations for head in ablation}:
            if not (1 <= layer <= self._layers and 0 <= head < call.heads):
                expected = f"layers from 1 to {self._layers} and heads from 0 to {call.heads - 1}"
                raise InputError(f"expected {expected}, got layer {layer}, head {head}.")
        output = call.output.clone()
        for copy, ablation in enumerate(self._ablations):
            output[copy, :, [head for layer, head in ablation if layer == self._calls]] = 0
        return output
