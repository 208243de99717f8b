"""What the output of a model does when the output of one head at one position is changed: exactly, many changes per run."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from identiformer.models.attention.call import Call
from identiformer.models.encoding.text import Batch
from identiformer.models.interventions.resumption import Resumption
from identiformer.models.linear_maps import in_float32
from identiformer.models.loaded import LoadedModel
from identiformer.models.objective import Objective
from identiformer.models.replica import replica_of
from identiformer.options import WEIGHTS_BUDGET
from identiformer.progress import WorkBar

TOKENS_AT_ONCE = 1024
"""Positions, of all copies of the text, that one run computes."""
UNCHANGED_RUNS = 4
"""Runs without a change, from different layers on, that show how far rounding alone moves the output."""


class HeadChange(NamedTuple):
    """o_i ← o_i + δ in one head at one position; layers count from 1."""

    layer: int
    head: int
    query: int
    change: Float[Tensor, " width"]


class HeadChanges:
    """A text whose forward pass is repeated with changed head outputs, in float32."""

    def __init__(self, model: LoadedModel, batch: Batch, kind: str, objective: Objective, causal: bool) -> None:
        self._objective, self._positions = objective, batch.longest
        self._calls = [number for number, site in enumerate(model.sites(batch)) if site.kind == kind]
        fused = model.weights_size(batch.longest) > WEIGHTS_BUDGET // 8
        network = in_float32(replica_of(model.network))
        causal = causal and bool(objective.positions)
        self._causal, options = causal, dict(objective.options)
        self.resumption = Resumption(model, network, batch, objective.outputs, causal=causal, fused=fused, **options)

    def effects(self, changes: Sequence[HeadChange], bar: WorkBar | None = None) -> Float64[Tensor, " change"]:
        """The effect of undoing each change: f - f' of a number; otherwise how far the output moves."""
        effects = torch.zeros(len(changes), dtype=torch.float64)
        last = max(self._objective.positions, default=0)
        # Nothing that a causal model reads before a position depends on it.
        reached = [number for number, change in enumerate(changes) if not self._causal or change.query <= last]
        for batch in self._batches(changes, reached):
            effects[batch] = self._run([changes[number] for number in batch])
            if bar is not None:
                bar.advance(len(batch))
        return effects

    def _batches(self, changes: Sequence[HeadChange], numbers: list[int]) -> Iterator[list[int]]:
        """Changes that are near each other in layer and position: a run starts from the first layer and position of its batch."""
        if not numbers:
            return
        layers, queries = ([changes[number][axis] for number in numbers] for axis in (0, 2))
        length = self._positions - (min(queries) if self.resumption.cuts else 0)
        if len(numbers) <= max(1, TOKENS_AT_ONCE // length):
            yield numbers
            return
        spread = (max(layers) - min(layers)) / len(self._calls), (max(queries) - min(queries)) / self._positions
        axis = 2 if self.resumption.cuts and spread[1] > spread[0] else 0
        ordered, half = sorted(numbers, key=lambda number: changes[number][axis]), len(numbers) // 2
        yield from self._batches(changes, ordered[:half])
        yield from self._batches(changes, ordered[half:])

    def rounding(self) -> float:
        """The largest effect of no change at all, from several layers on."""
        layers = torch.linspace(1, len(self._calls), UNCHANGED_RUNS).round().int().tolist()
        place = min(self._objective.positions, default=0)
        return max(float(self._run([HeadChange(layer, 0, place, torch.zeros(()))] * 2).abs().max()) for layer in layers)

    def _run(self, changes: Sequence[HeadChange]) -> Float64[Tensor, " change"]:
        at = {self._calls[change.layer - 1] for change in changes}

        def receive(number: int, call: Call) -> Tensor | None:
            if number not in at:
                return None
            output = call.output.clone()
            first = self._positions - output.shape[1] if self._causal else 0
            for copy, change in enumerate(changes):
                if self._calls[change.layer - 1] == number:
                    output[copy, change.query - first, change.head] += change.change.to(output)
            return output

        layer, first = min(change.layer for change in changes), min(change.query for change in changes)
        changed = self.resumption.run(self._calls[layer - 1], len(changes), receive, first)
        return self._objective.effects(self.resumption.unchanged, changed).cpu()
