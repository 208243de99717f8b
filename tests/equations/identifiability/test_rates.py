"""Random rates, bootstrap intervals and scores of two classes, against plain resampling, hand counts and NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from identiformer.equations.identifiability.rates import accuracy, example_bootstrap, f1, matthews_correlation, random_rate
from identiformer.errors import InputError

PAIRS = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=40)


def test_random_rate_is_the_mean_of_one_over_length():
    lengths = np.array([2, 5, 9])
    assert random_rate(lengths) == pytest.approx(np.mean(np.repeat(1 / lengths, lengths)))


def test_the_interval_matches_resampling_in_a_loop():
    rng = np.random.default_rng(0)
    tokens = rng.integers(5, 30, (40, 1))
    hits = rng.binomial(tokens, rng.beta(8, 2, (40, 1)))
    low, high = example_bootstrap(hits, tokens, draws=4000)
    drawn = []
    for _ in range(4000):
        chosen = rng.integers(0, 40, 40)
        drawn.append(hits[chosen].sum() / tokens[chosen].sum())
    assert [low, high] == pytest.approx(np.quantile(drawn, [0.025, 0.975]), abs=0.006)


def test_correlated_tokens_widen_the_interval():
    tokens = np.full((60, 1), 20)
    together, apart = np.repeat([[20], [0]], 30, axis=0), np.full((60, 1), 10)
    low, high = example_bootstrap(together, tokens)
    assert high - low > 0.2
    low, high = example_bootstrap(apart, tokens)
    assert high - low == 0


def test_examples_outside_every_test_split_do_not_count():
    tokens, hits = np.array([[4, 0], [0, 6], [3, 3]]), np.array([[4, 0], [0, 3], [2, 1]])
    padded = [np.vstack([array, np.zeros((50, 2), int)]) for array in (hits, tokens)]
    assert example_bootstrap(hits, tokens) == example_bootstrap(*padded)


def test_a_level_is_between_0_and_1():
    with pytest.raises(InputError, match="level between 0 and 1"):
        example_bootstrap(np.ones((2, 1), int), np.ones((2, 1), int), level=95.0)


@given(PAIRS)
def test_scores_agree_with_hand_counts(pairs):
    predicted, true = np.array(pairs).T
    right, false, missed = pairs.count((1, 1)), pairs.count((1, 0)), pairs.count((0, 1))
    assert accuracy(predicted, true) == pytest.approx((right + pairs.count((0, 0))) / len(pairs))
    if right:
        precision, recall = right / (right + false), right / (right + missed)
        assert f1(predicted, true) == pytest.approx(2 * precision * recall / (precision + recall))
    else:
        assert f1(predicted, true) == 0
    if 0 < predicted.mean() < 1 and 0 < true.mean() < 1:
        assert matthews_correlation(predicted, true) == pytest.approx(np.corrcoef(predicted, true)[0, 1])
    else:
        assert matthews_correlation(predicted, true) == 0


def test_a_case_worked_by_hand():
    predicted, true = np.array([1, 1, 1, 0, 0, 0]), np.array([1, 1, 0, 1, 0, 0])
    assert accuracy(predicted, true) == f1(predicted, true) == pytest.approx(4 / 6)
    assert matthews_correlation(predicted, true) == pytest.approx((2 * 2 - 1 * 1) / 9)
