"""What a probe learns: the hidden vectors, the inputs to recover, the candidates, and the split of examples. B.1."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from identiformer.equations.identifiability.recovery import Metric, Recovered, recover_tokens, unit
from identiformer.errors import InputError
from identiformer.options import check_examples

VALIDATION = 0.15
"""Share of the examples in the validation split, and in the test split."""


@dataclass(frozen=True, eq=False)
class Split:
    """Indices of the examples of each split; the tokens of one example always stay together."""

    training: np.ndarray
    validation: np.ndarray
    test: np.ndarray

    def share(self, share: float) -> "Split":
        """Keep a share of the training examples: the first of them, which are in random order."""
        if not 0 < share <= 1:
            raise InputError(f"expected a share of the training examples above 0 and up to 1, got {share}.")
        kept = round(share * len(self.training))
        if kept == 0:
            raise InputError(f"expected a share that leaves a training example, got {share} of {len(self.training)}.")
        return Split(self.training[:kept], self.validation, self.test)


def split_examples(examples: int, seed: int) -> Split:
    """Split examples at random into 70% training, 15% validation and 15% test."""
    size = round(VALIDATION * check_examples(examples))
    order = np.random.default_rng(seed).permutation(examples)
    training = examples - 2 * size
    return Split(order[:training], order[training : training + size], order[training + size :])


def hold_out(examples: int, seed: int) -> Split:
    """Split examples at random into training and validation, where the test examples come from elsewhere."""
    size = round(VALIDATION / (1 - VALIDATION) * examples)
    if size == 0:
        raise InputError(f"expected at least 3 groups (examples), for training and validation, got {examples}.")
    order = np.random.default_rng(seed).permutation(examples)
    return Split(order[size:], order[:size], order[:0])


@dataclass(frozen=True, eq=False)
class Task:
    """Hidden vectors, one per row, and for each the candidate of its example that a map should recover."""

    hidden: Tensor  # (row width)
    candidates: Tensor  # (token input_width)
    target: Tensor  # (row): index of the candidate to recover
    starts: Tensor
    """Where the candidates of each example begin, and last their number."""
    ids: Tensor | None = None  # (token): word pieces of the candidates
    by_piece: bool = False
    """Whether recovering the word piece is enough, as where inputs have no positions and so repeat."""

    @cached_property
    def example(self) -> Tensor:
        """(row): index of the example."""
        return torch.searchsorted(self.starts, self.target, right=True) - 1

    @cached_property
    def inputs(self) -> Tensor:
        """(row input_width): the vectors to recover."""
        same = len(self.target) == len(self.candidates) and bool((self.target == torch.arange(len(self.target))).all())
        return self.candidates if same else self.candidates[self.target]

    def rows(self, examples: np.ndarray) -> Tensor:
        """Indices of the rows of some examples, in order."""
        chosen = torch.zeros(len(self.starts) - 1, dtype=torch.bool)
        chosen[torch.from_numpy(examples)] = True
        return chosen[self.example].nonzero()[:, 0]

    def recover(self, predicted: Tensor, rows: Tensor, metric: Metric) -> Recovered:
        """Find the candidates nearest to the predictions for some rows."""
        return recover_tokens(predicted, self.candidates, self.target[rows], self.starts, metric, self.ids)

    def hits(self, recovered: Recovered) -> Tensor:
        """Whether each row counts as recovered: at its position, or as its word piece if that is enough."""
        return recovered.lenient if self.by_piece else recovered.strict

    def unit_rows(self) -> "Task":
        """The same task with vectors of length one, to which the cosine is indifferent."""
        return Task(unit(self.hidden), unit(self.candidates), self.target, self.starts, self.ids, self.by_piece)


def task_of(hidden: Tensor, inputs: Tensor, groups: np.ndarray, ids: Tensor | None = None) -> Task:
    """Make the task of recovering the input in the same row among those of the same group, which is contiguous."""
    if hidden.dim() != 2 or inputs.dim() != 2 or len(hidden) != len(inputs):
        raise InputError(
            f"expected hidden vectors (token width) and as many inputs (token input_width), got {tuple(hidden.shape)} and "
            f"{tuple(inputs.shape)}."
        )
    if groups.shape != (len(hidden),):
        raise InputError(f"expected one group per token, {len(hidden)} in all, got an array of shape {groups.shape}.")
    for name, vectors in (("hidden vectors", hidden), ("inputs", inputs)):
        if not bool(torch.isfinite(vectors.sum())) and not bool(torch.isfinite(vectors).all()):
            raise InputError(f"expected finite {name}, got NaN or infinity.")
    begins = np.flatnonzero(np.concatenate([[True], groups[1:] != groups[:-1]]))
    if len(np.unique(groups)) != len(begins):
        raise InputError("expected the tokens of each group to be contiguous, got one in pieces; sort tokens by group.")
    starts = torch.from_numpy(np.append(begins, len(groups)))
    return Task(hidden, inputs, torch.arange(len(hidden)), starts, ids)
