"""Linear maps without training: ridge regression toward maps of few parameters, and Procrustes. B.1, in seconds."""

import math
from collections.abc import Sequence
from functools import cached_property
from itertools import product
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
    without_shared,
)
from identiformer.equations.identifiability.recovery import Metric, unit
from identiformer.probes.maps import LinearMap
from identiformer.probes.task import Split, Task

WEAK, STRONG = (1e-6, 1e-4, 1e-2), (1e-1, 1.0, 10.0)
"""λ in units of the mean eigenvalue. A weak one leads to the same map whatever it shrinks toward."""
BLEND_SHARES = (0.5, 0.25, 0.75)
BLOCK = 2048  # rows whose copies fit in the cache
DIMENSIONS_PER_SHARED = 100
"""All vectors of a layer share some directions, about one per hundred dimensions (Mu and Viswanath, ICLR 2018)."""


class Family:
    """The orthogonal map, the identity, and ridge regressions toward multiples of both, fitted to one training set."""

    def __init__(
        self,
        training: Moments,
        metric: Metric,
        identity: bool = False,
        shared: Tensor | None = None,
        path: RidgePath | None = None,
    ) -> None:
        """Fit to moments; `path` is a ridge path of the same hidden vectors if one exists."""
        self.path = path.onto(training.cross) if path else RidgePath(training)
        self.shared = shared
        maps = [self.path.basis.mT @ orthogonal_map(training.cross)]
        if identity:
            maps.append(self.path.basis.mT)
        members = [(number, math.inf) for number in range(len(maps))]
        for number in range(len(maps)):
            members += product([len(maps) + number], (STRONG if number else WEAK + STRONG))
            if metric == "l2":  # the distance depends on the scale
                members.append((len(maps) + number, math.inf))
        self._toward = maps + [self.path.scaled(weights) for weights in maps]
        self._members = members

    def __len__(self) -> int:
        return len(self._members)

    def rotate(self, hidden: Tensor) -> Tensor:
        """Hidden vectors in the eigenbasis, in which `coordinates` apply."""
        if self.shared is not None:
            hidden = hidden - (hidden @ self.shared) @ self.shared.mT
        return hidden @ self.path.basis.to(hidden.dtype)

    def coordinates(self, member: int) -> Tensor:
        """One map of the family, for rotated hidden vectors."""
        toward, shrinkage = self._members[member]
        return self.path.coordinates(shrinkage, self._toward[toward])

    def weights(self, member: int) -> Tensor:
        """One map of the family, for hidden vectors as they are."""
        weights = self.path.basis @ self.coordinates(member)
        if self.shared is not None:
            shared = self.shared.double()
            weights -= shared @ (shared.mT @ weights)
        return weights


class Blend:
    """Weighted sums of two maps whose predictions are about equally long: what one of them misses the other may find."""

    def __init__(self, first: Tensor, second: Tensor, path: RidgePath) -> None:
        self._first, self._second = path.normalized(first), path.normalized(second)

    def __len__(self) -> int:
        return len(BLEND_SHARES)

    def rotate(self, hidden: Tensor) -> Tensor:
        """Hidden vectors as they are."""
        return hidden

    def coordinates(self, member: int) -> Tensor:
        """One of the sums."""
        return BLEND_SHARES[member] * self._first + (1 - BLEND_SHARES[member]) * self._second

    weights = coordinates


def direction_families(hidden: Tensor, inputs: Tensor, path: RidgePath) -> list[Family]:
    """Families for the cosine, which ignores lengths and so admits maps that a regression onto unit vectors misses.

    Hidden vectors lose the directions that all of them share and are normalized again: otherwise these dominate tokens that
    differ by little, such as [CLS] and [SEP]. The second family also removes the mean of the inputs.
    """
    shared = path.leading(-(-hidden.shape[1] // DIMENSIONS_PER_SHARED)).to(hidden.dtype)
    mean = inputs.mean(0)
    gram = torch.zeros(hidden.shape[1], hidden.shape[1], dtype=torch.float64)
    onto_inputs, onto_centered = torch.zeros(2, hidden.shape[1], inputs.shape[1], dtype=torch.float64)
    for rows, targets in zip(hidden.split(BLOCK), inputs.split(BLOCK), strict=True):
        vectors = without_shared(rows, shared).double()
        gram.addmm_(vectors.mT, vectors)
        onto_inputs.addmm_(vectors.mT, targets.double())
        onto_centered.addmm_(vectors.mT, unit(targets - mean).double())
    first = Family(Moments(gram, onto_inputs), "cosine", shared=shared)
    return [first, Family(Moments(gram, onto_centered), "cosine", shared=shared, path=first.path)]


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
