"""Agreement of two maps against NumPy."""

import itertools

import numpy as np
import pytest

from identiformer.equations.attribution.agreement import row_correlation


def test_row_correlation_matches_numpy():
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(2, 3, 6)), rng.normal(size=(2, 3, 6))
    visible = np.tri(3, 6, k=2, dtype=bool)
    found = row_correlation(first, second, visible[None])
    for batch, row in itertools.product(range(2), range(3)):
        keys = visible[row]
        assert found[batch, row] == pytest.approx(np.corrcoef(first[batch, row, keys], second[batch, row, keys])[0, 1])
    assert np.isnan(row_correlation(np.ones((1, 4)), second[0, :1, :4], np.ones((1, 4), bool))).all()
