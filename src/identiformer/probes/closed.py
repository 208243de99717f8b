"""Linear maps without training: ridge, with what cosine leaves free, and Procrustes. B.1, in seconds."""

from functools import cached_property

import torch
from torch import Tensor

from identiformer.equations.linear_recovery import (
    Moments,
    RidgePath,
    cosine_loss,
    moments,
    orthogonal_map,
    squared_loss,
    without_shared,
)
from identiformer.equations.token_recovery import Metric, unit
from identiformer.probes.maps import LinearMap
from identiformer.probes.splits import Split
from identiformer.probes.task import Task

SHRINKAGES = (1e-6, 1e-4, 1e-2, 1e-1)
"""λ, in units of the mean eigenvalue, of which the validation part chooses."""
DIMENSIONS_PER_SHARED = 100
"""All vectors of a layer have some directions in common, about one for so many dimensions (Mu and Viswanath, ICLR 2018)."""
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
        return self._whole.less(moments(self.task.hidden[others], self.task.inputs[others]))

    def procrustes(self, split: Split) -> LinearMap:
        """The orthogonal map; nothing in it is to be chosen."""
        cross = self._moments(self.task.rows(split.training)).cross
        return LinearMap(orthogonal_map(cross).to(self.task.hidden.dtype))

    def ridge(self, split: Split, shrinkage: float | None = None) -> LinearMap:
        """Ridge regression, its λ by the rate on the validation part; for cosine on unit vectors, and see `_scaled_at_will`.

        With a shrinkage given (λ in units of the mean eigenvalue) nothing is chosen.

        The rate chooses, not the loss: where the two part, as in late layers, the loss shrinks tokens towards each other.
        """
        dtype = self.task.hidden.dtype
        rows, held_out = self.task.rows(split.training), self.task.rows(split.validation)
        path = RidgePath(self._moments(rows))
        if shrinkage is not None:
            return LinearMap(path.weights(shrinkage).to(dtype))
        seen = self.task.hidden[held_out]

        def judged(weight: Tensor) -> tuple[float, float]:
            """The rate, and of equal rates the loss."""
            predicted = seen @ weight
            hits = self.task.hits(self.task.recover(predicted, held_out, self.metric))
            loss = cosine_loss if self.metric == "cosine" else squared_loss
            return float(hits.float().mean()), -float(loss(predicted, self.task.inputs[held_out]))

        weights = [path.weights(shrinkage).to(dtype) for shrinkage in SHRINKAGES]
        judgements = [judged(weight) for weight in weights]
        best, rate = max(zip(weights, judgements, strict=True), key=lambda pair: pair[1])
        if self.metric == "cosine" and rate[0] < GOOD_ENOUGH:
            others = self._scaled_at_will(rows, path, SHRINKAGES[judgements.index(rate)])
            best = max([best, *(weight.to(dtype) for weight in others)], key=judged)
        return LinearMap(best)

    def _scaled_at_will(self, rows: Tensor, path: RidgePath, shrinkage: float) -> tuple[Tensor, ...]:
        """Maps that a regression onto unit vectors does not find, since cosine does not see how long a prediction is.

        A token that differs from others by little, such as [CLS] from [SEP], is drowned by what they share: without that, and
        at length one again, it counts as much as any. And inputs share a mean, which tells no token from another.
        """
        hidden, inputs = self.task.hidden[rows], self.task.inputs[rows]
        shared = path.leading(-(-hidden.shape[1] // DIMENSIONS_PER_SHARED)).to(hidden.dtype)
        targets = torch.cat([inputs, unit(inputs - inputs.mean(0))], -1)
        weights = RidgePath(moments(without_shared(hidden, shared), targets)).weights(shrinkage)
        weights -= shared.double() @ (shared.double().mT @ weights)
        return weights.split(inputs.shape[1], -1)
