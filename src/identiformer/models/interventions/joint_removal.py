"""Remove many attention weights at once, in all layers of one run: each layer attends as it would, without their values."""

from collections.abc import Callable
from threading import Lock

import torch
from torch import Tensor

from identiformer.equations.attention.heads import per_head
from identiformer.models.attention.call import Call
from identiformer.models.attention.interface import WEIGHTS, recording
from identiformer.models.encoding.text import Batch
from identiformer.models.linear_maps import in_float32
from identiformer.models.loaded import LoadedModel
from identiformer.models.objective import Objective
from identiformer.models.replica import replica_of

Removed = Callable[[int], Tensor]
"""From the number of a layer, counted from 1, to the weights that are removed there: bool (head query key)."""


class JointRemoval:
    """Runs of one text in float32 in which sets of weights are removed, compared with the unchanged run."""

    def __init__(self, model: LoadedModel, batch: Batch, kind: str, objective: Objective) -> None:
        self._model, self._batch = model, batch
        self._objective = objective.whole or objective
        self._layers = {call: place for place, call in enumerate(_calls(model, batch, kind), 1)}
        self._network = in_float32(replica_of(model.network))
        self._lock = Lock()
        """The network is run by one thread at a time."""
        self.unchanged = self._run(None)

    def change(self, removed: Removed) -> float:
        """How far the whole output moves if the values of these weights are removed."""
        with self._lock:
            return self._objective.deviation(self.unchanged, self._run(removed))

    def _run(self, removed: Removed | None) -> Tensor:
        number = -1

        def receive(call: Call) -> Tensor | None:
            nonlocal number
            number += 1
            if removed is None or number not in self._layers or call.weights is None:
                return None
            queries, keys = (gone := removed(self._layers[number])).shape[1:]  # fewer than in the call where the model pads
            weights = call.weights[0].clone()
            weights[:, :queries, :keys].masked_fill_(gone.to(weights.device), 0)
            return (weights @ per_head(call.value[0], call.heads)).transpose(0, 1)[None]

        with torch.no_grad(), recording(self._network, WEIGHTS, receive):
            result = self._model.forward(self._network, self._batch.inputs, **dict(self._objective.options))
            return self._objective.outputs(result, 0)


def _calls(model: LoadedModel, batch: Batch, kind: str) -> list[int]:
    """The numbers of the attention calls of one type."""
    return [number for number, site in enumerate(model.sites(batch)) if site.kind == kind]
