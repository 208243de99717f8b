"""Exact effects of single weights, and how far first-order effects are from them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from threading import Lock
from typing import Any

import numpy as np
import torch

from identiformer.equations.attention.removal import knock_out_edges, zero_values
from identiformer.equations.effects.idle import LEVELS
from identiformer.equations.effects.intervals import conformal_quantile
from identiformer.measures.effects.effects import Effects
from identiformer.measures.effects.levels import Levels, Weight
from identiformer.measures.heads.heads import Heads
from identiformer.models.interventions.head_changes import HeadChange, HeadChanges
from identiformer.progress import WorkBar

LARGEST = 50
"""Weights with the largest first-order effects, which are always removed exactly."""
STRATA = (0.5, 0.9, 0.99, 0.999)
"""The shares of weights, by first-order effect, at which strata end; the last has the rest."""
PER_STRATUM = 40


@dataclass
class Exact:
    """The exact effects of some weights of a passage on an objective, as they are asked for."""

    effects: Effects
    heads: Heads
    runs: HeadChanges
    rounding: float
    """The largest effect that a run without a change has: smaller ones are not distinguished from none."""
    known: dict[tuple[Weight, bool], float] = field(default_factory=dict)
    lock: Any = field(default_factory=Lock)

    @classmethod
    def of(cls, effects: Effects, heads: Heads) -> "Exact":
        """Runs of a passage; what they measure is kept with it."""
        passage = effects.passage

        def compute() -> "Exact":
            runs = HeadChanges(passage.model, passage.batch, heads.stack.kind, effects.objective, passage.causal)
            return cls(effects, heads, runs, runs.rounding())

        return passage.memo.once((*effects.key, "exact", tuple(heads.rows)), compute, pinned=True)

    def remove(self, weights: Sequence[Weight], renormalized: bool = False, bar: WorkBar | None = None) -> np.ndarray:
        """The effect of each weight when it is removed in a run of the model; NaN where it is all of its row."""
        with self.lock:  # a resumed run belongs to one thread at a time
            return self._remove(weights, renormalized, bar)

    def _remove(self, weights: Sequence[Weight], renormalized: bool, bar: WorkBar | None) -> np.ndarray:
        missing = [weight for weight in dict.fromkeys(weights) if (weight, renormalized) not in self.known]
        changes = list(self._changes(missing, renormalized))
        measured = self.runs.effects([change for _, change in changes], bar).tolist()
        self.known |= {(weight, renormalized): np.nan for weight in missing}
        self.known |= {(weight, renormalized): effect for (weight, _), effect in zip(changes, measured, strict=True)}
        return np.array([self.known[weight, renormalized] for weight in weights])

    def _changes(self, weights: Sequence[Weight], renormalized: bool) -> Iterator[tuple[Weight, HeadChange]]:
        """What removing each weight changes in its head's output, head by head."""
        for layer, number in dict.fromkeys((weight.layer, weight.head) for weight in weights):
            head = self.heads.layer(layer).head(number, self.heads.stack.kind)
            of_head = [weight for weight in weights if weight[:2] == (layer, number)]
            rows = list(dict.fromkeys(weight.row for weight in of_head))
            remove = knock_out_edges if renormalized else zero_values
            removal = remove(head.weights[None, rows], head.values[None], head.sink)
            for weight in of_head:
                row = rows.index(weight.row)
                change = removal.changes(torch.tensor([weight.key]))[0, 0, row]
                if bool(removal.factor[0, row, weight.key].isfinite()):
                    yield weight, HeadChange(layer, number, self.heads.rows[weight.row], change.cpu())


@dataclass(frozen=True, eq=False)
class Calibration:
    """How far exact effects are from first-order ones, by stratum of the latter."""

    ends: tuple[int, ...]
    """The highest level of each stratum but the last."""
    factors: np.ndarray
    """Of each stratum: an interval is e ± factor·|e| of a number, and from e/(1 + factor) to e·(1 + factor) otherwise."""
    largest: np.ndarray
    """The largest exact effect, without sign, that was measured in each stratum."""
    sampled: np.ndarray
    """How many weights of each were removed."""

    @classmethod
    def of(cls, exact: Exact, levels: Levels, bar: WorkBar | None = None) -> "Calibration":
        """From exact effects of a sample of each stratum."""
        ends = tuple(levels.quantiles(STRATA, PER_STRATUM))
        generator = np.random.default_rng(exact.effects.passage.seed)
        limits = (-LEVELS, *ends, LEVELS)
        samples = [levels.sample(low, high, PER_STRATUM, generator) for low, high in pairwise(limits)]
        every = [weight for sample in samples for weight in sample]
        if bar is not None:
            bar.expect(len(every))
        measured = exact.remove(every, bar=bar)
        estimated = first_order_of(exact, every)
        scores = distance(measured, estimated, exact)
        strata = np.repeat(range(len(samples)), [len(sample) for sample in samples])
        chosen = [strata == number for number in range(len(samples))]
        return cls(
            ends,
            np.array([conformal_quantile(scores[some]) for some in chosen]),
            np.array([np.abs(measured[some]).max(initial=0) for some in chosen]),
            np.array([some.sum() for some in chosen]),
        )

    def interval(self, effect: np.ndarray, level: np.ndarray, is_number: bool) -> tuple[np.ndarray, np.ndarray]:
        """The ends of the 95% intervals of first-order effects with these levels."""
        with np.errstate(invalid="ignore"):
            factor = self.factors[np.searchsorted(self.ends, level)]
            if is_number:
                return effect - factor * np.abs(effect), effect + factor * np.abs(effect)
            return effect / (1 + factor), effect * (1 + factor)


def first_order_of(exact: Exact, weights: Sequence[Weight]) -> np.ndarray:
    """The first-order effects of some weights."""
    heads, found = exact.heads, {}
    for layer, number in dict.fromkeys((weight.layer, weight.head) for weight in weights):
        effect = exact.effects.of_head(heads.layer(layer).head(number, heads.stack.kind), heads.rows)
        found |= {weight: float(effect[weight.row, weight.key]) for weight in weights if weight[:2] == (layer, number)}
    return np.array([found[weight] for weight in weights])


def distance(exact: np.ndarray, estimated: np.ndarray, runs: Exact) -> np.ndarray:
    """How far exact effects are from first-order ones, as the factors of intervals; zero where both are within rounding."""
    below = (np.abs(exact) <= runs.rounding) & (np.abs(estimated) <= runs.rounding)
    with np.errstate(divide="ignore", invalid="ignore"):
        if runs.effects.objective.is_number:
            scores = np.abs(exact - estimated) / np.abs(estimated)
        else:
            scores = np.maximum(exact / estimated, estimated / np.maximum(exact, 1e-300)) - 1
    return np.where(below, 0.0, np.nan_to_num(scores, nan=inf))
