"""A way to fit a probe, and the probe that recovers the input token of a hidden vector, with fit, predict and score."""

import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from identiformer.equations.identifiability.recovery import Metric, Recovered
from identiformer.errors import InputError, ResultError
from identiformer.files import atomic
from identiformer.models.hidden_states.store import LayerStates, Origin
from identiformer.probes.closed_form import ClosedForm
from identiformer.probes.maps import Kind, LinearMap, PerceptronMap, train_map
from identiformer.probes.task import Split, Task, hold_out, task_of

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


Vectors = Tensor | np.ndarray | LayerStates
FORMAT = "identiformer probe 1"


class TokenProbe:
    """Recover the input token that a hidden vector came from, by the nearest input after a learned map. §4.

    Parameters
    ----------
    kind, loss, fit, **settings
        As in `Method`; settings are learning_rate, inner_width, dropout, seed and shrinkage.

    Attributes
    ----------
    method : Method
    map : torch.nn.Module or None
        The fitted map from hidden to input space.
    origin : Origin or None
        The model and layer that the probe was fitted to, if it was fitted to LayerStates.

    Examples
    --------
    >>> generator = torch.Generator().manual_seed(0)
    >>> inputs = torch.randn(200, 8, generator=generator)
    >>> hidden = inputs @ torch.randn(8, 8, generator=generator)
    >>> probe = TokenProbe().fit(hidden[:160], inputs[:160], groups=np.arange(160) // 8)
    >>> probe.score(hidden[160:], inputs[160:], groups=np.arange(40) // 8)
    1.0
    """

    def __init__(self, kind: str = "linear", loss: str = "cosine", fit: str = "closed", **settings: Any) -> None:
        known = list(asdict(Method()))[3:]
        if not set(settings) <= set(known):
            raise InputError(f"expected settings among {', '.join(known)}, got {', '.join(settings)}.")
        self.method = Method(kind, loss, fit, **settings)
        self.map: nn.Module | None = None
        self.origin: Origin | None = None

    def fit(self, hidden: Vectors, inputs: Vectors, *, groups: Any) -> "TokenProbe":
        """Fit the map, holding out some examples to select the regularization or to stop training.

        Parameters
        ----------
        hidden, inputs : LayerStates, torch.Tensor or numpy.ndarray
            Hidden vectors and inputs, one row per token. LayerStates bind the probe to their model and layer.
        groups : array of int
            Example of each token; tokens of one example are next to each other.

        Returns
        -------
        TokenProbe
            The probe itself; an interrupted fit leaves it as it was.
        """
        values, origin = _values(hidden)
        task = task_of(values, _values(inputs)[0], np.asarray(groups))
        fitted = self.method.fit_map(task, hold_out(len(task.starts) - 1, self.method.seed))
        self.map, self.origin = fitted, origin
        return self

    def predict(self, hidden: Vectors, *, other_layer: bool = False) -> Tensor:
        """Map hidden vectors to input space.

        Parameters
        ----------
        hidden
            As in `fit`.
        other_layer : bool
            Whether they may come from another layer of the model than the probe was fitted to.

        Returns
        -------
        torch.Tensor
            Predicted inputs (token input_width).
        """
        values, origin = _values(hidden)
        network = self.network
        self._check_origin(origin, other_layer)
        if isinstance(network, LinearMap | PerceptronMap) and values.shape[-1] != network.width:
            raise InputError(f"expected hidden vectors of width {network.width}, got {values.shape[-1]}; use another probe.")
        with torch.no_grad():
            return network(values)

    def recover(self, hidden: Vectors, inputs: Vectors, *, groups: Any, ids: Any = None, other_layer: bool = False) -> Recovered:
        """For each token, whether the nearest input of its example is its own (strict) or of its word piece (lenient).

        Takes the parameters of `score`, and `ids`, the word piece of each token, which lenient hits need.
        """
        pieces = None if ids is None else torch.as_tensor(np.asarray(ids)).long()
        task = task_of(_values(hidden)[0], _values(inputs)[0], np.asarray(groups), pieces)
        predicted = self.predict(hidden, other_layer=other_layer)
        return task.recover(predicted, torch.arange(len(predicted)), self.method.metric)

    def score(self, hidden: Vectors, inputs: Vectors, *, groups: Any, other_layer: bool = False) -> float:
        """The recovery rate: the share of tokens whose nearest input of their example is their own.

        Parameters
        ----------
        hidden, inputs, groups, other_layer
            As in `fit` and `predict`.

        Returns
        -------
        float
        """
        return float(self.recover(hidden, inputs, groups=groups, other_layer=other_layer).strict.double().mean())

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the probe to a safetensors file with its settings, model and layer; an interrupted write leaves no file."""
        network = self.network
        about = {
            "format": FORMAT,
            "settings": json.dumps(self.method.settings()),
            "origin": json.dumps(None if self.origin is None else asdict(self.origin)),
        }
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        tensors = {name: tensor.contiguous() for name, tensor in network.state_dict().items()}
        with atomic(target) as temporary:
            save_file(tensors, temporary, metadata=about)
        return target

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "TokenProbe":
        """Read a probe from a file that `save` wrote."""
        source = Path(path)
        if not source.is_file():
            raise ResultError(f"expected a file with a probe, but {source} does not exist or is not a file.")
        try:
            with safe_open(source, "pt") as file:
                about = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except SafetensorError as error:
            raise ResultError(f"the probe in {source} is damaged ({error}); fit it again.") from error
        if about.get("format") != FORMAT:
            raise ResultError(f"expected a probe of identiformer, but {source} holds other tensors.")
        probe = cls(**json.loads(about["settings"]))
        origin = json.loads(about["origin"])
        probe.origin = None if origin is None else Origin(**origin)
        probe.map = _map_from(probe.method, tensors)
        return probe

    @property
    def network(self) -> nn.Module:
        """The fitted map; a probe that is not fitted raises."""
        if self.map is None:
            raise InputError("expected a fitted probe; call fit first, or load one.")
        return self.map

    def _check_origin(self, origin: Origin | None, other_layer: bool) -> None:
        if self.origin is None:
            return
        if origin is None:
            raise InputError(f"this probe belongs to {self.origin}; pass LayerStates, which record where vectors come from.")
        expected = replace(self.origin, model=origin.model)  # the same weights may be in another folder
        if other_layer:
            expected = replace(expected, layer=origin.layer)
        if expected != origin:
            raise InputError(f"this probe belongs to {self.origin}, but the vectors are of {origin}; fit one for them.")


def _values(vectors: Vectors) -> tuple[Tensor, Origin | None]:
    if isinstance(vectors, LayerStates):
        return vectors.values, vectors.origin
    values = torch.as_tensor(vectors)
    return (values if values.is_floating_point() else values.float()), None


def _map_from(method: Method, tensors: dict[str, Tensor]) -> nn.Module:
    if method.kind == "naive":
        return nn.Identity()
    if method.kind != "mlp":
        return LinearMap(tensors["weight"])
    inner, outer = tensors["inner.weight"], tensors["outer.weight"]
    network = PerceptronMap(inner.shape[1], inner.shape[0], outer.shape[0], method.dropout)
    network.load_state_dict(tensors)
    return network
