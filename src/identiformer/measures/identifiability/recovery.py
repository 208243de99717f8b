"""What the measures of token identifiability share: fit over resplits, test, and count."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import nn

from identiformer.equations.identifiability.rates import example_bootstrap
from identiformer.models.hidden_states.store import HiddenStates, Origin
from identiformer.probes import ClosedForm, Method, Split, Task, TokenProbe


def input_task(states: HiddenStates, layer: int, candidates_layer: int = 0, offset: int = 0) -> Task:
    """Find x_{i+offset} (or the vector of another layer there) from e_i of a layer; targets out of range are left out."""
    hidden, candidates = states.layer(layer).values, states.layer(candidates_layer).values
    position = states.position + offset
    rows = np.flatnonzero((position >= 0) & (position < states.lengths[states.example]))
    target = torch.from_numpy(rows + offset)
    chosen = hidden if len(rows) == len(hidden) else hidden[torch.from_numpy(rows)]
    by_piece = candidates_layer == 0 and not states.positional
    return Task(chosen, candidates, target, torch.from_numpy(states.starts), torch.from_numpy(states.ids), by_piece)


class Fits:
    """The fits of one task: what splits share is computed once, and long ones are kept on disk as soon as they are whole."""

    def __init__(self, task: Task, states: HiddenStates, layer: int, what: str, keep: bool) -> None:
        self.task, self.states, self.layer, self.what, self.keep = task, states, layer, what, keep
        self._closed: dict[str, ClosedForm] = {}

    def __call__(self, method: Method, split: Split) -> nn.Module:
        if method.fit == "closed":
            if method.loss not in self._closed:
                self._closed[method.loss] = ClosedForm(self.task, method.metric)
            return method.fitted(self.task, split, self._closed[method.loss])
        if not self.keep:
            return method.fitted(self.task, split)
        parts = [part.tolist() for part in (split.training, split.validation)]
        key = json.dumps([self.layer, self.what, method.settings(), parts])
        path = self.states.folder / "fits" / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.safetensors"
        return self._kept(path, method, split)

    def _kept(self, path: Path, method: Method, split: Split) -> nn.Module:
        if path.exists():
            found = TokenProbe.load(path).map
            assert found is not None
            return found
        probe = TokenProbe(**method.settings())
        probe.map = method.fitted(self.task, split)
        probe.origin = Origin(self.states.source["model"], self.states.source["revision"], self.layer)
        probe.save(path)
        return probe.map


@dataclass
class Tally:
    """What one method found over the test parts of all resplits."""

    hits: np.ndarray
    """(example resplit), of what counts as found."""
    tokens: np.ndarray
    """(example resplit)"""
    token_hits: np.ndarray
    """(row), over all resplits."""
    token_tests: np.ndarray
    strict: int = 0
    lenient: int = 0
    ties: int = 0

    @classmethod
    def empty(cls, task: Task, resplits: int) -> "Tally":
        by_example, by_row = (len(task.starts) - 1, resplits), len(task.hidden)
        return cls(np.zeros(by_example, int), np.zeros(by_example, int), np.zeros(by_row, int), np.zeros(by_row, int))

    def add(self, task: Task, network: nn.Module, examples: np.ndarray, resplit: int, method: Method) -> None:
        """Test a map on some examples."""
        rows = task.rows(examples)
        with torch.no_grad():
            found = task.recover(network(task.hidden[rows]), rows, method.metric)
        hits = task.hits(found).numpy()
        example = task.example[rows].numpy()
        self.hits[:, resplit] += np.bincount(example, hits, len(self.hits)).astype(np.int64)
        self.tokens[:, resplit] += np.bincount(example, minlength=len(self.hits))
        self.token_hits[rows.numpy()] += hits
        self.token_tests[rows.numpy()] += 1
        self.strict += int(found.strict.sum())
        self.lenient += int(found.lenient.sum())
        self.ties += int(found.tied.sum())

    @property
    def by_resplit(self) -> np.ndarray:
        return self.hits.sum(0) / self.tokens.sum(0)

    def summary(self, seed: int) -> dict[str, float]:
        """The mean over resplits, their spread, and the interval when examples are drawn anew."""
        low, high = example_bootstrap(self.hits, self.tokens, seed=seed)
        rates = self.by_resplit
        spread = float(rates.std(ddof=1)) if len(rates) > 1 else float("nan")
        return {"rate": float(rates.mean()), "rate_sd": spread, "rate_low": low, "rate_high": high}

    def share(self, kind: np.ndarray, kinds: int) -> np.ndarray:
        """The rate of each kind of row; NaN where none was tested."""
        tests = np.bincount(kind, self.token_tests, kinds)
        return np.divide(np.bincount(kind, self.token_hits, kinds), tests, out=np.full(kinds, np.nan), where=tests > 0)


def naive_undefined(task: Task, method: Method) -> bool:
    """Where embeddings are narrower than layers, hidden vectors and inputs cannot be compared as they are."""
    return method.kind == "naive" and task.hidden.shape[1] != task.candidates.shape[1]


def tested(fits: Fits, method: Method, splits: Sequence[Split]) -> Tally:
    """One method over all resplits, trained and tested on the same task."""
    tally = Tally.empty(fits.task, len(splits))
    for number, split in enumerate(splits):
        tally.add(fits.task, fits(seeded(method, number), split), split.test, number, method)
    return tally


def seeded(method: Method, resplit: int) -> Method:
    """Each resplit starts from weights of its own."""
    return replace(method, seed=method.seed + resplit)
