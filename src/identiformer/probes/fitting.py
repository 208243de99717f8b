"""One fit: which map, which loss, and how it is found."""

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import torch
from torch import nn

from identiformer.equations.identifiability.recovery import Metric
from identiformer.errors import InputError
from identiformer.probes.adam import train
from identiformer.probes.closed import ClosedForm
from identiformer.probes.maps import Kind, LinearMap, PerceptronMap, fresh_map
from identiformer.probes.splits import Split
from identiformer.probes.task import Task

Fit = Literal["closed", "adam"]
PAPER_WIDTH = 1000


@dataclass(frozen=True)
class Method:
    """A kind of map and the loss that it is to make small, by which it is also judged: cosine or L2 distance."""

    kind: str = "linear"
    loss: str = "cosine"
    fit: str = "closed"
    learning_rate: float | None = 1e-4
    """Of Adam; None searches the grid of B.1."""
    inner_width: int = PAPER_WIDTH
    """Of the MLP; B.1 also tried 3072 with dropout."""
    dropout: float = 0.0
    seed: int = 0
    shrinkage: float | None = None
    """Of the closed form, in units of the mean eigenvalue; None lets the validation part choose."""

    def __post_init__(self) -> None:
        for name, allowed in (("kind", get_args(Kind)), ("loss", get_args(Metric)), ("fit", get_args(Fit))):
            if getattr(self, name) not in allowed:
                raise InputError(f"expected {name} to be one of {', '.join(allowed)}, got {getattr(self, name)!r}.")
        if self.kind == "mlp" and self.fit == "closed":
            raise InputError("an MLP has no closed form; give fit='adam'.")
        if self.kind == "procrustes" and self.fit == "adam":
            raise InputError("an orthogonal map is found in closed form; give fit='closed'.")
        if self.shrinkage is not None and not self.shrinkage > 0:
            raise InputError(f"expected a shrinkage above 0, got {self.shrinkage}.")
        if self.inner_width < 1 or not 0 <= self.dropout < 1:
            raise InputError(
                f"expected a width of at least 1 and a dropout in [0, 1), got {self.inner_width} and {self.dropout}."
            )

    @property
    def name(self) -> str:
        """Such as "linear cosine"; an MLP of another width than the paper's says so."""
        width = f" {self.inner_width}" if self.kind == "mlp" and self.inner_width != PAPER_WIDTH else ""
        return f"{self.kind} {self.loss}{width}"

    @property
    def metric(self) -> Metric:
        """By which nearness is told: that of the loss."""
        return "cosine" if self.loss == "cosine" else "l2"

    def settings(self) -> dict[str, Any]:
        """What tells this fit from another."""
        return asdict(self)

    def fitted(self, task: Task, split: Split, closed: ClosedForm | None = None, most_epochs: int | None = None) -> nn.Module:
        """The map for the training and validation parts of a split; `closed` holds what fits of one task share."""
        if self.kind == "naive":
            return nn.Identity()
        if self.fit == "closed":
            closed = closed or ClosedForm(task, self.metric)
            return closed.procrustes(split) if self.kind == "procrustes" else closed.ridge(split, self.shrinkage)

        def make(generator: torch.Generator) -> LinearMap | PerceptronMap:
            width, input_width = task.hidden.shape[1], task.candidates.shape[1]
            return fresh_map(self.kind, width, input_width, self.inner_width, self.dropout, generator)

        return train(make, task, split, self.metric, self.learning_rate, self.seed, most_epochs)
