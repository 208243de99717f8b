"""Interventions on one row of a head: free weight is moved, sinks and readable weight are removed, each next to a control."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

import identiformer as idf
from identiformer.equations import cascade, contribution_bounds, head_contributions
from identiformer.equations.attention.contributions import head_output_shares, is_sink
from identiformer.equations.attention.heads import group_of
from identiformer.measures.attention.ambiguity import default_tolerance
from identiformer.models.interventions.patching import random_change
from identiformer.trace import Trace
from studies.patched_runs import PatchedRuns
from studies.tables import Row

LEAST = 0.01
"""Share of a row's weight that must be free, or readable in one key, for the row to count."""
COMPARABLE = 2.0
"""Factor by which comparable weights may differ."""


class RowUnderTest:
    """One row of a head, its certified bounds and contributions, and patched runs in which only it differs."""

    def __init__(
        self, trace: Trace, runs: PatchedRuns, layer: int, head: int, query: int, generator: np.random.Generator
    ) -> None:
        self.runs, self.at, self.query, self.generator = runs, (layer, head), query, generator
        self.layer = trace.layer(layer).recorded()
        self.weights = self.layer.weights[head].double()
        self.row, self.visible = self.weights[query], self.layer.visible.dense()[query].numpy()
        values = self.layer.values[group_of(head, self.layer.heads, len(self.layer.values))].double()
        self.written = values if self.layer.projection is None else values @ self.layer.projection[head].double()
        self.contributions = head_contributions(self.row[None, None], self.written[None])
        self.bounds = idf.ambiguity(trace, layer, head, queries=query).isel(query=0)
        own_row = (self.layer.weights[:, [query]].double(), self.layer.values.double(), self.layer.projection)
        self.output_share = float(head_output_shares(*own_row)[head, 0])
        """How much of the layer's output the head writes in this row."""

    def free(self) -> Iterator[Row]:
        """Move weight along the farthest alternative; control: a random change that sums to zero."""
        moved = torch.from_numpy(self.bounds.alternatives.sel(alternative="farthest").values)
        size = float((moved - self.row).abs().sum() / 2)
        if size >= LEAST:
            seed = torch.Generator().manual_seed(int(self.generator.integers(2**31)))
            control = random_change(self._patch(moved), self.weights, self.layer, seed)[self.query]
            yield self._compare("free", size, moved, control)

    def sink(self) -> Iterator[Row]:
        """Remove the sinks' values; give their weight to the other keys, and compare the head's output with the prediction."""
        sinks = is_sink(self.row[None, None], self.contributions.contribution, self.contributions.norm_share)[0, 0]
        if bool(sinks.any()):
            yield from self._removed("sink", sinks.numpy())
            left = self._without(sinks.numpy())
            output, scaled = self.row @ self.written, (left * self.row.sum() / left.sum()) @ self.written
            measured, predicted = float(scaled @ output / (output @ output)), float(self.row.sum() / left.sum())
            yield {"kind": "redistributed", "size": float(self.row[sinks].sum()), "patched": measured, "control": predicted}

    def readable(self, own_content: Tensor) -> Iterator[Row]:
        """Remove the key with the most readable weight."""
        low, high = (torch.from_numpy(self.bounds[name].values) for name in ("low", "high"))
        spread = (self.contributions.per_weight[0, 0], self.contributions.relative_length[0, 0])
        least = contribution_bounds(low, high, *spread, default_tolerance(self.layer.values.dtype)).low
        readable = cascade(self.row, low, least, own_content).readable.nan_to_num(0)
        if float(readable.max()) < LEAST:
            return
        keys = np.arange(len(readable)) == int(readable.argmax())
        yield from self._removed("readable", keys)
        weight = self.row / self.row[keys]
        alike = np.flatnonzero(((weight <= COMPARABLE) & (weight >= 1 / COMPARABLE)).numpy() & ~keys)
        if len(alike):
            other = self._without(np.arange(len(keys)) == self.generator.choice(alike))
            yield self._compare("comparable", float(self.row[keys]), self._without(keys), other)

    def _removed(self, kind: str, keys: np.ndarray) -> Iterator[Row]:
        """Set the weights of some keys to zero; control: take the same weights off random other keys.

        Those keys may have less: their weights are then negative, and the control is not an attention distribution.
        """
        others = np.flatnonzero(self.visible & ~keys)
        if len(others) >= keys.sum():
            control = self.row.clone()
            control[self.generator.choice(others, int(keys.sum()), replace=False)] -= self.row[keys]
            yield self._compare(kind, float(self.row[keys].sum()), self._without(keys), control)

    def _without(self, keys: np.ndarray) -> Tensor:
        return self.row.masked_fill(torch.from_numpy(keys), 0)

    def _compare(self, kind: str, size: float, patched: Tensor, control: Tensor) -> Row:
        """The changes of the model's output, and those of the head's output."""
        row: Row = {"kind": kind, "size": size}
        for name, other in (("patched", patched), ("control", control)):
            row[f"{name}_weight"] = float((other - self.row).abs().sum())
            row[name] = self.runs.change({self.at: self._patch(other)})
            row[f"head_{name}"] = float(((other - self.row) @ self.written).norm() / (self.row @ self.written).norm())
        return row

    def _patch(self, row: Tensor) -> Tensor:
        weights = self.weights.clone()
        weights[self.query] = row
        return weights
