"""Examples dealt into a training, a validation and a test part; tokens of one example always stay together. B.1"""

from dataclasses import dataclass

import numpy as np

from identiformer.errors import InputError

TRAINING, VALIDATION = 0.70, 0.15


@dataclass(frozen=True, eq=False)
class Split:
    """Numbers of examples, in three parts."""

    training: np.ndarray
    validation: np.ndarray
    test: np.ndarray

    def share(self, share: float) -> "Split":
        """The same split with a share of its training examples: the first of them, which stand in random order."""
        if not 0 < share <= 1:
            raise InputError(f"expected a share of the training examples above 0 and up to 1, got {share}.")
        kept = round(share * len(self.training))
        if kept == 0:
            raise InputError(f"expected a share that leaves a training example, but {share} of {len(self.training)} is none.")
        return Split(self.training[:kept], self.validation, self.test)


def split_examples(examples: int, seed: int) -> Split:
    """70/15/15, at random; a seed always gives the same."""
    validation = round(VALIDATION * examples)
    if validation == 0:
        raise InputError(f"expected at least 4 examples, to train on, to choose by and to test on, got {examples}.")
    order = np.random.default_rng(seed).permutation(examples)
    training = examples - 2 * validation
    return Split(order[:training], order[training : training + validation], order[training + validation :])
