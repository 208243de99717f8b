"""Bootstrap intervals over examples."""

import numpy as np

from identiformer.measures.faithfulness.bootstrap import estimate, from_fixed_point, to_fixed_point


def test_intervals_are_those_of_the_normal_approximation():
    scores = np.random.default_rng(1).normal(0.5, 0.2, (400, 3))
    result = estimate(scores)
    np.testing.assert_allclose(result.mean, scores.mean(0), atol=1e-8)
    error = 1.96 * scores.std(0) / 20
    np.testing.assert_allclose(result.high - result.low, 2 * error, rtol=0.1)


def test_the_same_examples_give_the_same_bits_whatever_else_is_estimated():
    scores = np.random.default_rng(1).random((50, 7, 4))
    whole, alone = estimate(scores), estimate(scores[:, 3:4])
    assert all(np.array_equal(one[3:4], other) for one, other in zip(whole, alone, strict=True))


def test_undefined_examples_are_left_out_and_one_example_has_no_interval():
    scores = np.array([[1.0, 1.0, np.nan], [3.0, np.nan, np.nan], [np.nan, np.nan, np.nan]])
    result = estimate(scores)
    np.testing.assert_array_equal(result.mean, [2.0, 1.0, np.nan])
    np.testing.assert_array_equal(result.examples, [2, 1, 0])
    # Of two examples, a quarter of all draws are both times the first, and a quarter both times the second.
    np.testing.assert_array_equal(result.low, [1.0, np.nan, np.nan])
    np.testing.assert_array_equal(result.high, [3.0, np.nan, np.nan])


def test_fixed_point_keeps_nine_digits():
    scores = np.array([0.123456789012, -1.0, np.nan])
    np.testing.assert_allclose(from_fixed_point(to_fixed_point(scores)), scores, atol=1e-9)
