"""The scores of all weights of a passage on a logarithmic scale, two bytes each: their order, and how much weight has which."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from identiformer.equations.effects.idle import LEVELS, NEVER, score_levels
from identiformer.measures.effects.effects import Effects
from identiformer.measures.heads.heads import Heads
from identiformer.trace import RecordedHead

Score = Callable[[RecordedHead], Tensor]
"""From a head to a score for each of its weights (row key)."""


class Weight(NamedTuple):
    """One attention weight; layers count from 1, `row` is its place among the rows that are read."""

    layer: int
    head: int
    row: int
    key: int


@dataclass(frozen=True, eq=False)
class Levels:
    """The level of every weight that can change the objective; NEVER for all others, and in rows that make no choice."""

    layers: list[int]
    by_layer: list[Tensor]
    """int16 (head row key), one per layer."""
    mass: np.ndarray
    """How much weight has each level."""

    @classmethod
    def of(cls, heads: Heads, effects: Effects, score: Score) -> "Levels":
        """Those of some heads, by a score."""
        levels, mass = {number: [] for number in heads.layers}, np.zeros(LEVELS)
        for head in heads:
            weights = head.weights.double().cpu()
            scored = score_levels(score(head).abs())
            counted = effects.reaching(head, heads.rows) & head.visible.dense() & (weights > 0)
            levels[head.layer].append(torch.where(counted, scored, NEVER))
            mass += np.bincount(scored[counted].numpy().astype(np.int64) + LEVELS // 2, weights[counted].numpy(), LEVELS)
        return cls(heads.layers, [torch.stack(levels[number]) for number in heads.layers], mass)

    def removed(self, level: int) -> Callable[[int], Tensor]:
        """The weights of each layer whose level is at most this one."""
        return lambda number: self.by_layer[self.layers.index(number)] <= min(level, NEVER - 1)

    def largest(self, count: int) -> list[Weight]:
        """The weights with the largest scores, the largest first."""
        found: list[tuple[int, Weight]] = []
        for number, levels in zip(self.layers, self.by_layer, strict=True):
            flat = levels.flatten().int().masked_fill(levels.flatten() == NEVER, -LEVELS)
            top = flat.topk(min(count, len(flat)))
            places = zip(*(axis.tolist() for axis in torch.unravel_index(top.indices, levels.shape)), strict=True)
            scored = zip(top.values.tolist(), places, strict=True)
            found += [(level, Weight(number, *place)) for level, place in scored if level > -LEVELS]
        return [weight for _, weight in sorted(found, key=lambda entry: (-entry[0], entry[1]))[:count]]

    def quantiles(self, shares: tuple[float, ...], fewest: int) -> list[int]:
        """The levels that these shares of all weights do not exceed, as long as at least so many weights are above."""
        counts = np.zeros(LEVELS, np.int64)
        for levels in self.by_layer:
            chosen = levels[levels != NEVER].numpy().astype(np.int64)
            counts += np.bincount(chosen + LEVELS // 2, minlength=LEVELS)
        cumulative = counts.cumsum()
        total = int(cumulative[-1])
        return [
            int(np.searchsorted(cumulative, share * total)) - LEVELS // 2 for share in shares if (1 - share) * total >= fewest
        ]

    def sample(self, low: int, high: int, count: int, generator: np.random.Generator) -> list[Weight]:
        """Weights with a level above one and up to another, each with the same probability."""
        places = [
            (number, torch.nonzero((levels > low) & (levels <= high) & (levels != NEVER)))
            for number, levels in zip(self.layers, self.by_layer, strict=True)
        ]
        ends = np.cumsum([len(found) for _, found in places])
        chosen = generator.choice(ends[-1], min(count, int(ends[-1])), replace=False)
        weights = []
        for index in np.sort(chosen):
            layer = int(np.searchsorted(ends, index, side="right"))
            number, found = places[layer]
            weights.append(Weight(number, *found[index - ends[layer]].tolist()))
        return weights
