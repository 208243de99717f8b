"""Splits by example: the tokens of one example stay together."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from identiformer.errors import InputError
from identiformer.probes import split_examples, task_of


@given(examples=st.integers(4, 500), seed=st.integers(0, 50))
def test_every_example_is_in_one_split(examples, seed):
    split = split_examples(examples, seed)
    parts = [set(part.tolist()) for part in (split.training, split.validation, split.test)]
    assert sum(map(len, parts)) == examples
    assert set.union(*parts) == set(range(examples))
    assert len(parts[1]) == len(parts[2]) == pytest.approx(0.15 * examples, abs=1)


def test_tokens_of_one_example_stay_together():
    groups = np.repeat(np.arange(40), np.random.default_rng(0).integers(2, 9, 40))
    vectors = np.zeros((len(groups), 2), np.float32)
    task = task_of(torch.from_numpy(vectors), torch.from_numpy(vectors), groups)
    split = split_examples(40, 3)
    parts = [task.rows(part).numpy() for part in (split.training, split.validation, split.test)]
    assert sorted(np.concatenate(parts)) == list(range(len(groups)))
    for number, part in enumerate(parts):
        for other in parts[number + 1 :]:
            assert not set(groups[part]) & set(groups[other])


def test_splits_depend_only_on_the_seed():
    assert (split_examples(100, 1).test == split_examples(100, 1).test).all()
    assert (split_examples(100, 1).test != split_examples(100, 2).test).any()


def test_share_keeps_validation_and_test():
    split = split_examples(100, 0)
    half, most = split.share(0.5), split.share(0.9)
    assert len(half.training) == 35
    assert set(half.training) < set(most.training) < set(split.training)
    assert half.test is split.test
    assert half.validation is split.validation


def test_too_few_examples_and_invalid_shares_are_rejected():
    with pytest.raises(InputError, match="at least 4 examples"):
        split_examples(3, 0)
    for share in (0.0, 1.5, -1.0):
        with pytest.raises(InputError, match="above 0 and up to 1"):
            split_examples(10, 0).share(share)
    with pytest.raises(InputError, match="leaves a training example"):
        split_examples(10, 0).share(0.01)
