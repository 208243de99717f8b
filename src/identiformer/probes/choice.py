"""The choice among candidate maps, by what they find in examples that they were not fitted to."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from identiformer.equations.identifiability.linear_maps import cosine_loss, squared_loss
from identiformer.equations.identifiability.recovery import Metric
from identiformer.probes.families import Blend, Family
from identiformer.probes.splits import Split
from identiformer.probes.task import Task

ENOUGH_TOKENS = 3000
"""The rate over so many tokens has a standard error of half a point; a validation part that has fewer is rotated."""
ROUND = 1000  # tokens after which those that are clearly behind drop out
CLEARLY = 3  # standard errors


class Fold(NamedTuple):
    """Rows to fit to, and rows to choose by."""

    training: Tensor
    held_out: Tensor


def folds(task: Task, split: Split) -> list[Fold]:
    """The split itself; where its validation part is small, also splits in which training examples take its place in turn."""
    parts = [(split.training, split.validation)]
    held_out = len(task.rows(split.validation))
    size = len(split.validation)
    wanted = -(-ENOUGH_TOKENS // max(held_out, 1)) - 1
    for start in range(0, size * min(wanted, len(split.training) // size), size):
        chosen = split.training[start : start + size]
        rest = [split.training[:start], split.training[start + size :], split.validation]
        parts.append((np.concatenate(rest), chosen))
    return [Fold(task.rows(training), task.rows(chosen)) for training, chosen in parts]


class Contest:
    """Families compete on what is held out; the first fold's fit of the member that finds most is the map."""

    def __init__(self, task: Task, metric: Metric, entered: Sequence[Fold]) -> None:
        self.task, self.folds = task, entered
        self.metric: Metric = metric
        self._hits = torch.zeros(0, dtype=torch.bool)
        self._family: Family | Blend | None = None
        self._member = 0

    @property
    def rate(self) -> float:
        """The share of held-out tokens that the leader finds."""
        return float(self._hits.double().mean()) if len(self._hits) else 0.0

    def weights(self) -> Tensor:
        """The leader's."""
        assert self._family is not None
        return self._family.weights(self._member)

    def enter(self, families: Sequence[Family] | Sequence[Blend]) -> int | None:
        """Let a family compete, fitted to each of the folds; its best member, or none if all are clearly behind the leader."""
        members, hits = list(range(len(families[0]))), {}
        for fold, family in zip(self.folds, families, strict=True):
            for rows in fold.held_out.split(ROUND):
                turned = family.turned(self.task.hidden[rows])
                for member in members:
                    predicted = turned @ family.coordinates(member).to(turned.dtype)
                    found = self.task.hits(self.task.recover(predicted, rows, self.metric))
                    hits[member] = torch.cat([hits[member], found]) if member in hits else found
                members = self._still_in(members, hits)
                if not members:
                    return None
        most = max(int(hits[member].sum()) for member in members)
        finalists = [member for member in members if int(hits[member].sum()) == most]
        best = min(finalists, key=lambda member: self._loss(families[0], member)) if len(finalists) > 1 else finalists[0]
        if most > int(self._hits.sum()) or self._family is None:
            self._hits, self._family, self._member = hits[best], families[0], best
        return best

    def _still_in(self, members: list[int], hits: dict[int, Tensor]) -> list[int]:
        """Those that are not clearly behind the best, by McNemar's test: only tokens that one of the two finds count."""
        rivals = [hits[member] for member in members]
        tokens = len(rivals[0])
        if len(self._hits):
            rivals.append(self._hits[:tokens])
        best = max(rivals, key=lambda found: int(found.sum()))
        return [
            member
            for member in members
            if int(best.sum()) - int(hits[member].sum()) <= CLEARLY * int((best != hits[member]).sum()) ** 0.5
        ]

    def _loss(self, family: Family | Blend, member: int) -> float:
        """Of those that find as much, the smaller loss is better."""
        rows = self.folds[0].held_out
        turned = family.turned(self.task.hidden[rows])
        loss = cosine_loss if self.metric == "cosine" else squared_loss
        return float(loss(turned @ family.coordinates(member).to(turned.dtype), self.task.inputs[rows]))
