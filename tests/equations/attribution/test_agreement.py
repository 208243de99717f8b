"""Agreement of two maps against NumPy."""

import itertools

import numpy as np
import pytest
from scipy.stats import spearmanr

from identiformer.equations.attribution.agreement import row_correlation, row_rank_correlation


def test_row_correlation_matches_numpy():
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(2, 3, 6)), rng.normal(size=(2, 3, 6))
    visible = np.tri(3, 6, k=2, dtype=bool)
    found = row_correlation(first, second, visible[None])
    for batch, row in itertools.product(range(2), range(3)):
        keys = visible[row]
        assert found[batch, row] == pytest.approx(np.corrcoef(first[batch, row, keys], second[batch, row, keys])[0, 1])
    assert np.isnan(row_correlation(np.ones((1, 4)), second[0, :1, :4], np.ones((1, 4), bool))).all()


def test_row_rank_correlation_matches_scipy_with_ties():
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 4, (2, 3, 9)).astype(float), rng.normal(size=(2, 3, 9))
    visible = np.tri(3, 9, k=5, dtype=bool)
    actual = row_rank_correlation(first, second, visible[None])
    for batch, row in itertools.product(range(2), range(3)):
        keys = visible[row]
        expected = spearmanr(first[batch, row, keys], second[batch, row, keys]).statistic
        assert actual[batch, row] == pytest.approx(expected)
    first[0, 0, 1] = np.nan
    assert np.isnan(row_rank_correlation(first, second, visible[None])).tolist() == [[True, False, False], [False] * 3]


def test_rounding_errors_of_a_constant_row_are_no_variation():
    constant = np.full((1, 7), 1 / 7) + np.array([0, 1, 0, 0, -1, 0, 0]) * 2.0**-55
    assert np.isnan(row_correlation(constant, np.arange(7.0)[None], np.ones((1, 7), bool))).all()
