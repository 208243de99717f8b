"""One way to fit a probe: the kind of map, its loss, and how it is found."""

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from torch import nn

from identiformer.equations.identifiability.recovery import Metric
from identiformer.errors import InputError
from identiformer.probes.closed_form import ClosedForm
from identiformer.probes.maps import Kind, train_map
from identiformer.probes.task import Split, Task

Fit = Literal["closed", "adam"]
PAPER_WIDTH = 1000


@dataclass(frozen=True)
class Method:
    """A kind of map from hidden to input space, and how to fit it.

    Parameters
    ----------
    kind : {"linear", "naive", "procrustes", "mlp"}
        "naive" compares hidden vectors with inputs as they are; "procrustes" is an orthogonal linear map.
    loss : {"cosine", "l2"}
        The distance to minimize, by which the nearest input is found as well.
    fit : {"closed", "adam"}
        Closed form, in seconds, or Adam as in the paper. An MLP needs Adam, Procrustes the closed form.
    learning_rate : float, optional
        Learning rate of Adam; None searches the grid of B.1.
    inner_width : int
        Width of the MLP's hidden layer; B.1 also tried 3072 with dropout.
    dropout : float
        Dropout of the MLP.
    seed : int
        Seed of initialization, batches and dropout.
    shrinkage : float, optional
        λ of the closed form in units of the mean eigenvalue; None selects it on the validation examples.

    Examples
    --------
    >>> Method("mlp", "l2", "adam", inner_width=3072).name
    'mlp l2 3072'
    """

    kind: str = "linear"
    loss: str = "cosine"
    fit: str = "closed"
    learning_rate: float | None = 1e-4
    inner_width: int = PAPER_WIDTH
    dropout: float = 0.0
    seed: int = 0
    shrinkage: float | None = None

    def __post_init__(self) -> None:
        for name, allowed in (("kind", get_args(Kind)), ("loss", get_args(Metric)), ("fit", get_args(Fit))):
            if getattr(self, name) not in allowed:
                raise InputError(f"expected {name} to be one of {', '.join(allowed)}, got {getattr(self, name)!r}.")
        if self.kind == "mlp" and self.fit == "closed":
            raise InputError("an MLP has no closed form; use fit='adam'.")
        if self.kind == "procrustes" and self.fit == "adam":
            raise InputError("an orthogonal map is found in closed form; use fit='closed'.")
        if self.shrinkage is not None and not self.shrinkage > 0:
            raise InputError(f"expected a shrinkage above 0, got {self.shrinkage}.")
        if self.inner_width < 1 or not 0 <= self.dropout < 1:
            raise InputError(f"expected a width of 1 or more and a dropout in [0, 1), got {self.inner_width} and {self.dropout}.")

    @property
    def name(self) -> str:
        """Kind and loss, such as "linear cosine", and the width of an MLP if it is not the paper's."""
        width = f" {self.inner_width}" if self.kind == "mlp" and self.inner_width != PAPER_WIDTH else ""
        return f"{self.kind} {self.loss}{width}"

    @property
    def metric(self) -> Metric:
        """The distance by which the nearest input is found: that of the loss."""
        return "cosine" if self.loss == "cosine" else "l2"

    def settings(self) -> dict[str, Any]:
        """All parameters by name."""
        return asdict(self)

    def fit_map(self, task: Task, split: Split, closed: ClosedForm | None = None, most_epochs: int | None = None) -> nn.Module:
        """Fit the map to the training and validation examples of a split; `closed` holds what fits of one task share."""
        if self.kind == "naive":
            return nn.Identity()
        if self.fit == "closed":
            closed = closed or ClosedForm(task, self.metric)
            return closed.procrustes(split) if self.kind == "procrustes" else closed.ridge(split, self.shrinkage)
        settings = (self.learning_rate, self.inner_width, self.dropout, self.seed)
        return train_map(self.kind, task, split, self.metric, *settings, most_epochs)
