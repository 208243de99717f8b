"""Intervals and the rate of guessing, against plain resampling."""

import numpy as np
import pytest

from identiformer.equations.identifiability.rates import example_bootstrap, random_rate
from identiformer.errors import InputError


def test_guessing_reaches_the_mean_of_one_over_length():
    lengths = np.array([2, 5, 9])
    assert random_rate(lengths) == pytest.approx(np.mean(np.repeat(1 / lengths, lengths)))


def test_the_interval_is_that_of_examples_drawn_one_by_one():
    rng = np.random.default_rng(0)
    tokens = rng.integers(5, 30, (40, 1))
    hits = rng.binomial(tokens, rng.beta(8, 2, (40, 1)))
    low, high = example_bootstrap(hits, tokens, draws=4000)
    drawn = []
    for _ in range(4000):
        chosen = rng.integers(0, 40, 40)
        drawn.append(hits[chosen].sum() / tokens[chosen].sum())
    assert [low, high] == pytest.approx(np.quantile(drawn, [0.025, 0.975]), abs=0.006)


def test_tokens_that_fall_together_make_the_interval_wider():
    tokens = np.full((60, 1), 20)
    together, apart = np.repeat([[20], [0]], 30, axis=0), np.full((60, 1), 10)
    low, high = example_bootstrap(together, tokens)
    assert high - low > 0.2
    low, high = example_bootstrap(apart, tokens)
    assert high - low == 0


def test_examples_that_were_never_tested_count_for_nothing():
    tokens, hits = np.array([[4, 0], [0, 6], [3, 3]]), np.array([[4, 0], [0, 3], [2, 1]])
    padded = [np.vstack([array, np.zeros((50, 2), int)]) for array in (hits, tokens)]
    assert example_bootstrap(hits, tokens) == example_bootstrap(*padded)


def test_a_level_is_between_0_and_1():
    with pytest.raises(InputError, match="level between 0 and 1"):
        example_bootstrap(np.ones((2, 1), int), np.ones((2, 1), int), level=95.0)
