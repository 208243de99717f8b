"""Linear maps without training: ridge regression toward maps of few parameters, and Procrustes. B.1, in seconds."""

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from identiformer.equations.identifiability.linear_maps import (
    Moments,
    RidgePath,
    cosine_loss,
    moments,
    orthogonal_map,
    squared_loss,
)
from identiformer.equations.identifiability.recovery import Metric
from identiformer.probes.candidates import Blend, Family, direction_families
from identiformer.probes.maps import LinearMap
from identiformer.probes.task import Split, Task

SHRINKAGES = (1e-6, 1e-4, 1e-2, 1e-1)
"""λ, in units of the mean eigenvalue, of ridge regression toward zero, for callers with a criterion of their own."""
GOOD_ENOUGH = 0.999  # a rate that other maps do not improve
ENOUGH_TOKENS = 3000
"""The rate over this many tokens has a standard error of half a point; a smaller validation split is rotated."""
ROUND = 1000  # tokens between eliminations
CLEARLY = 3  # standard errors


class ClosedForm:
    """Closed-form fits of one task; what all splits share is computed once."""

    def __init__(self, task: Task, metric: Metric) -> None:
        self.task = task.unit_rows() if metric == "cosine" else task
        self.metric: Metric = metric

    @cached_property
    def _all_moments(self) -> Moments:
        return moments(self.task.hidden, self.task.inputs)

    def _moments(self, rows: Tensor) -> Moments:
        """The moments of some rows, computed from these or from the others, whichever are fewer."""
        total = len(self.task.hidden)
        if 2 * len(rows) <= total:
            return moments(self.task.hidden[rows], self.task.inputs[rows])
        others = torch.ones(total, dtype=torch.bool)
        others[rows] = False
        return self._all_moments.minus(moments(self.task.hidden[others], self.task.inputs[others]))

    def procrustes(self, split: Split) -> LinearMap:
        """The orthogonal map, which has no hyperparameter."""
        cross = self._moments(self.task.rows(split.training)).cross
        return LinearMap(orthogonal_map(cross).to(self.task.hidden.dtype))

    def ridge(self, split: Split, shrinkage: float | None = None) -> LinearMap:
        """Ridge regression toward Procrustes or the identity, selected by the recovery rate on validation examples.

        The candidates include Procrustes and the identity themselves. For the cosine, vectors have length one, and families
        that use only directions join the race. A fixed shrinkage (λ in units of the mean eigenvalue) is ridge regression toward
        zero, without selection. The rate selects, not the loss: in late layers, where the two differ, the loss shrinks tokens
        toward each other.
        """
        task = self.task
        if shrinkage is not None:
            path = RidgePath(self._moments(task.rows(split.training)))
            return LinearMap(path.weights(shrinkage).to(task.hidden.dtype))
        square = task.hidden.shape[1] == task.candidates.shape[1]
        rotation = folds(task, split)
        plain = [Family(self._moments(fold.training), self.metric, identity=square) for fold in rotation]
        race = Race(task, self.metric, rotation, plain)
        if self.metric == "cosine" and race.rate < GOOD_ENOUGH:
            free = [
                direction_families(task.hidden[fold.training], task.inputs[fold.training], family.path)
                for fold, family in zip(rotation, plain, strict=True)
            ]
            for families in zip(*free, strict=True):
                second = race.enter(families)
                if race.first is not None and second is not None:
                    pairs = zip(plain, families, strict=True)
                    race.enter([Blend(one.weights(race.first), other.weights(second), one.path) for one, other in pairs])
        return LinearMap(race.weights().to(task.hidden.dtype))


class Fold(NamedTuple):
    """Rows to fit to, and rows to select by."""

    training: Tensor
    held_out: Tensor


def folds(task: Task, split: Split) -> list[Fold]:
    """The split itself and, if its validation split is small, splits that hold out training examples in turn."""
    splits = [(split.training, split.validation)]
    size = len(split.validation)
    wanted = -(-ENOUGH_TOKENS // max(len(task.rows(split.validation)), 1)) - 1
    for start in range(0, size * min(wanted, len(split.training) // size), size):
        rest = [split.training[:start], split.training[start + size :], split.validation]
        splits.append((np.concatenate(rest), split.training[start : start + size]))
    return [Fold(task.rows(training), task.rows(held_out)) for training, held_out in splits]


class Race:
    """A race of candidate maps; the winner has the highest rate over the held-out rows of all folds."""

    def __init__(self, task: Task, metric: Metric, folds: Sequence[Fold], family: Sequence[Family]) -> None:
        """Start with one family of candidates, fitted to each of the folds."""
        self.task, self.folds = task, folds
        self.metric: Metric = metric
        self._hits = torch.zeros(0, dtype=torch.bool)
        self._winner: tuple[Family | Blend, int] = (family[0], 0)
        self.first = self.enter(family)

    @property
    def rate(self) -> float:
        """The recovery rate of the winner on held-out tokens."""
        return float(self._hits.double().mean()) if len(self._hits) else 0.0

    def weights(self) -> Tensor:
        """The winner, fitted to the first fold."""
        family, member = self._winner
        return family.weights(member)

    def enter(self, families: Sequence[Family] | Sequence[Blend]) -> int | None:
        """Race a family, fitted to each fold; return its best member, or None if all are clearly behind the winner so far."""
        members, hits = list(range(len(families[0]))), {}
        for fold, family in zip(self.folds, families, strict=True):
            for rows in fold.held_out.split(ROUND):
                rotated = family.rotate(self.task.hidden[rows])
                for member in members:
                    predicted = rotated @ family.coordinates(member).to(rotated.dtype)
                    recovered = self.task.hits(self.task.recover(predicted, rows, self.metric))
                    hits[member] = torch.cat([hits[member], recovered]) if member in hits else recovered
                members = self._not_clearly_behind(members, hits)
                if not members:
                    return None
        most = max(int(hits[member].sum()) for member in members)
        finalists = [member for member in members if int(hits[member].sum()) == most]
        best = min(finalists, key=lambda member: self._loss(families[0], member)) if len(finalists) > 1 else finalists[0]
        if most > int(self._hits.sum()) or not len(self._hits):
            self._hits, self._winner = hits[best], (families[0], best)
        return best

    def _not_clearly_behind(self, members: list[int], hits: dict[int, Tensor]) -> list[int]:
        """McNemar's test against the best so far, over the tokens that only one of the two recovers."""
        rivals = [hits[member] for member in members]
        if len(self._hits):
            rivals.append(self._hits[: len(rivals[0])])
        best = max(rivals, key=lambda recovered: int(recovered.sum()))
        return [
            member
            for member in members
            if int(best.sum()) - int(hits[member].sum()) <= CLEARLY * int((best != hits[member]).sum()) ** 0.5
        ]

    def _loss(self, family: Family | Blend, member: int) -> float:
        """The loss on the first fold, which decides between candidates of equal rate."""
        rows = self.folds[0].held_out
        rotated = family.rotate(self.task.hidden[rows])
        loss = cosine_loss if self.metric == "cosine" else squared_loss
        return float(loss(rotated @ family.coordinates(member).to(rotated.dtype), self.task.inputs[rows]))
