"""Linear maps without training: ridge regression toward maps of few parameters, and Procrustes. B.1, in seconds."""

from functools import cached_property

import torch
from torch import Tensor

from identiformer.equations.identifiability.linear_maps import Moments, RidgePath, moments, orthogonal_map
from identiformer.equations.identifiability.recovery import Metric
from identiformer.probes.choice import Contest, folds
from identiformer.probes.families import Blend, Family, free_of_lengths
from identiformer.probes.maps import LinearMap
from identiformer.probes.splits import Split
from identiformer.probes.task import Task

SHRINKAGES = (1e-6, 1e-4, 1e-2, 1e-1)
"""λ, in units of the mean eigenvalue, of ridge regression toward zero, for callers that choose by a criterion of their own."""
GOOD_ENOUGH = 0.999  # a rate beyond which other maps find nothing more


class ClosedForm:
    """Closed-form fits of one task: what all splits share is computed once."""

    def __init__(self, task: Task, metric: Metric) -> None:
        self.task = task.unit_rows() if metric == "cosine" else task
        self.metric: Metric = metric

    @cached_property
    def _whole(self) -> Moments:
        return moments(self.task.hidden, self.task.inputs)

    def _moments(self, rows: Tensor) -> Moments:
        """Those of some rows: of the smaller of the two, these or the others."""
        total = len(self.task.hidden)
        if 2 * len(rows) <= total:
            return moments(self.task.hidden[rows], self.task.inputs[rows])
        others = torch.ones(total, dtype=torch.bool)
        others[rows] = False
        return self._whole.minus(moments(self.task.hidden[others], self.task.inputs[others]))

    def procrustes(self, split: Split) -> LinearMap:
        """The orthogonal map; nothing in it is to be chosen."""
        cross = self._moments(self.task.rows(split.training)).cross
        return LinearMap(orthogonal_map(cross).to(self.task.hidden.dtype))

    def ridge(self, split: Split, shrinkage: float | None = None) -> LinearMap:
        """Of ridge regressions toward Procrustes and the identity, these two included, the one that finds most when validated.

        For cosine vectors have length one, and families that use that only directions count compete, too. With a shrinkage
        given (λ in units of the mean eigenvalue) nothing is chosen: ridge regression toward zero.

        The rate chooses, not the loss: where the two part, as in late layers, the loss shrinks tokens toward each other.
        """
        task = self.task
        if shrinkage is not None:
            path = RidgePath(self._moments(task.rows(split.training)))
            return LinearMap(path.weights(shrinkage).to(task.hidden.dtype))
        square = task.hidden.shape[1] == task.candidates.shape[1]
        parts = folds(task, split)
        contest = Contest(task, self.metric, parts)
        plain = [Family(self._moments(part.training), self.metric, identity=square) for part in parts]
        first = contest.enter(plain)
        if self.metric == "cosine" and contest.rate < GOOD_ENOUGH:
            free = [
                free_of_lengths(task.hidden[part.training], task.inputs[part.training], family.path)
                for part, family in zip(parts, plain, strict=True)
            ]
            for families in zip(*free, strict=True):
                second = contest.enter(families)
                if first is not None and second is not None:
                    pairs = zip(plain, families, strict=True)
                    contest.enter([Blend(one.weights(first), other.weights(second), one.path) for one, other in pairs])
        return LinearMap(contest.weights().to(task.hidden.dtype))
