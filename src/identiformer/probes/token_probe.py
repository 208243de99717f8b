"""A probe that finds the input token of a hidden vector, as an ordinary estimator."""

import json
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from identiformer.equations.identifiability.recovery import Recovered
from identiformer.errors import InputError, ResultError
from identiformer.files import atomic
from identiformer.models.hidden_states.store import LayerStates, Origin
from identiformer.probes.fitting import Method
from identiformer.probes.maps import LinearMap, PerceptronMap
from identiformer.probes.splits import VALIDATION, Split
from identiformer.probes.task import Task, task_of

Vectors = Tensor | np.ndarray | LayerStates
FORMAT = "identiformer probe 1"


class TokenProbe:
    """Learns to tell which input token a hidden vector came from.

    kind: "naive" (none: the hidden vector itself), "linear", "procrustes" (linear and orthogonal), "mlp".
    loss: "cosine" or "l2", for fitting and for finding the nearest neighbor.
    fit: "closed" (seconds) or "adam", as in the paper; the MLP has the latter only.

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
        """Learn from tokens; `groups` says which example each belongs to.

        Some of the examples are held out to choose the regularization, or to stop by. Nothing is kept of a fit that was
        interrupted. From LayerStates the probe learns which layer of which model it belongs to.
        """
        values, origin = _values(hidden)
        task = task_of(values, _values(inputs)[0], np.asarray(groups))
        found = self.method.fitted(task, _hold_out(len(task.starts) - 1, self.method.seed))
        self.map, self.origin = found, origin
        return self

    def predict(self, hidden: Vectors, *, other_layer: bool = False) -> Tensor:
        """The inputs that hidden vectors seem to come from; `other_layer` lets it look at another layer of its model."""
        values, origin = _values(hidden)
        network = self._fitted()
        self._check_origin(origin, other_layer)
        if isinstance(network, LinearMap | PerceptronMap) and values.shape[-1] != network.width:
            raise InputError(
                f"expected hidden vectors of width {network.width}, got {values.shape[-1]}; the probe is of another model."
            )
        with torch.no_grad():
            return network(values)

    def recover(self, hidden: Vectors, inputs: Vectors, *, groups: Any, ids: Any = None, other_layer: bool = False) -> Recovered:
        """For each token, whether the nearest input of its example is its own (strict), or of its word piece (lenient)."""
        task = self._task(hidden, inputs, groups, ids)
        predicted = self.predict(hidden, other_layer=other_layer)
        return task.recover(predicted, torch.arange(len(predicted)), self.method.metric)

    def score(self, hidden: Vectors, inputs: Vectors, *, groups: Any, other_layer: bool = False) -> float:
        """The identifiability rate: the share of strict hits."""
        return float(self.recover(hidden, inputs, groups=groups, other_layer=other_layer).strict.double().mean())

    @staticmethod
    def _task(hidden: Vectors, inputs: Vectors, groups: Any, ids: Any) -> Task:
        pieces = None if ids is None else torch.as_tensor(np.asarray(ids)).long()
        return task_of(_values(hidden)[0], _values(inputs)[0], np.asarray(groups), pieces)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the probe as safetensors, with the model, the layer and the settings that it belongs to: whole or not at all."""
        network = self._fitted()
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
        """Read a probe that was saved."""
        source = Path(path)
        if not source.is_file():
            raise ResultError(f"expected a file with a probe, but there is none at {source}.")
        try:
            with safe_open(source, "pt") as file:
                about = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except SafetensorError as error:
            raise ResultError(f"the probe in {source} is damaged ({error}); fit it anew.") from error
        if about.get("format") != FORMAT:
            raise ResultError(f"expected a probe of identiformer, but {source} holds other tensors.")
        probe = cls(**json.loads(about["settings"]))
        origin = json.loads(about["origin"])
        probe.origin = None if origin is None else Origin(**origin)
        probe.map = _map_from(probe.method, tensors)
        return probe

    def _fitted(self) -> Any:
        if self.map is None:
            raise InputError("expected a fitted probe; call fit first, or load one.")
        return self.map

    def _check_origin(self, given: Origin | None, other_layer: bool) -> None:
        if self.origin is None:
            return
        if given is None:
            raise InputError(f"this probe belongs to {self.origin}; give it LayerStates, which say where vectors come from.")
        expected = replace(self.origin, model=given.model)  # the same weights may stand in another folder
        if other_layer:
            expected = replace(expected, layer=given.layer)
        if expected != given:
            raise InputError(f"this probe belongs to {self.origin}, but the vectors are of {given}; fit one for them.")


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


def _hold_out(examples: int, seed: int) -> Split:
    """A share of the examples to choose by; what is tested comes from elsewhere."""
    held_out = round(VALIDATION / (1 - VALIDATION) * examples)
    if held_out == 0:
        raise InputError(f"expected at least 3 groups (examples), to train on and to choose by, got {examples}.")
    order = np.random.default_rng(seed).permutation(examples)
    return Split(order[held_out:], order[:held_out], order[:0])
