"""What a map has to learn: from which vectors, which inputs, among which candidates."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from identiformer.equations.identifiability.recovery import Metric, Recovered, recover_tokens, unit
from identiformer.errors import InputError


@dataclass(frozen=True, eq=False)
class Task:
    """Hidden vectors, a row each, and for each the candidate that it is to find among those of its example."""

    hidden: Tensor
    """(row width)"""
    candidates: Tensor
    """(token input_width)"""
    target: Tensor
    """(row): the candidate asked for."""
    starts: Tensor
    """Where the candidates of each example begin, and their number last."""
    ids: Tensor | None = None
    """(token): the candidates' word pieces."""
    by_piece: bool = False
    """Whether finding the word piece is all that can be asked, as where inputs have no positions and repeat."""

    @cached_property
    def example(self) -> Tensor:
        """The example of each row."""
        return torch.searchsorted(self.starts, self.target, right=True) - 1

    @cached_property
    def inputs(self) -> Tensor:
        """(row input_width): the vectors asked for."""
        same = len(self.target) == len(self.candidates) and bool((self.target == torch.arange(len(self.target))).all())
        return self.candidates if same else self.candidates[self.target]

    def rows(self, examples: np.ndarray) -> Tensor:
        """The rows of some examples, in order."""
        chosen = torch.zeros(len(self.starts) - 1, dtype=torch.bool)
        chosen[torch.from_numpy(examples)] = True
        return chosen[self.example].nonzero()[:, 0]

    def recover(self, predicted: Tensor, rows: Tensor, metric: Metric) -> Recovered:
        """What predictions for some rows find."""
        return recover_tokens(predicted, self.candidates, self.target[rows], self.starts, metric, self.ids)

    def hits(self, recovered: Recovered) -> Tensor:
        """What counts as found: the very token, or its word piece where that is all that can be asked."""
        return recovered.lenient if self.by_piece else recovered.strict

    def unit_rows(self) -> "Task":
        """The same with vectors of length one, which is how cosine sees them."""
        return Task(unit(self.hidden), unit(self.candidates), self.target, self.starts, self.ids, self.by_piece)


def task_of(hidden: Tensor, inputs: Tensor, groups: np.ndarray, ids: Tensor | None = None) -> Task:
    """Each hidden vector is to find the input in the same row, among those of the same group; groups stand together."""
    if hidden.dim() != 2 or inputs.dim() != 2 or len(hidden) != len(inputs):
        raise InputError(
            f"expected hidden vectors (token width) and as many inputs (token input_width), got {tuple(hidden.shape)} and "
            f"{tuple(inputs.shape)}."
        )
    if groups.shape != (len(hidden),):
        raise InputError(f"expected a group for each of {len(hidden)} tokens, got an array of shape {groups.shape}.")
    for name, vectors in (("hidden vectors", hidden), ("inputs", inputs)):
        if not bool(torch.isfinite(vectors.sum())) and not bool(torch.isfinite(vectors).all()):
            raise InputError(f"expected finite {name}, got NaN or infinity.")
    begins = np.flatnonzero(np.concatenate([[True], groups[1:] != groups[:-1]]))
    if len(np.unique(groups)) != len(begins):
        raise InputError("expected the tokens of each group to stand together; sort them by group.")
    starts = torch.from_numpy(np.append(begins, len(groups)))
    return Task(hidden, inputs, torch.arange(len(hidden)), starts, ids)
