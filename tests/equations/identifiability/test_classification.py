"""Scores of two classes, against counts by hand and a correlation of NumPy's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from identiformer.equations.identifiability.classification import accuracy, f1, matthews_correlation

PAIRS = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=40)


@given(PAIRS)
def test_scores_are_what_the_counts_say(pairs):
    told, true = np.array(pairs).T
    right, false, missed = pairs.count((1, 1)), pairs.count((1, 0)), pairs.count((0, 1))
    assert accuracy(told, true) == pytest.approx((right + pairs.count((0, 0))) / len(pairs))
    if right:
        precision, recall = right / (right + false), right / (right + missed)
        assert f1(told, true) == pytest.approx(2 * precision * recall / (precision + recall))
    else:
        assert f1(told, true) == 0
    if 0 < told.mean() < 1 and 0 < true.mean() < 1:
        assert matthews_correlation(told, true) == pytest.approx(np.corrcoef(told, true)[0, 1])
    else:
        assert matthews_correlation(told, true) == 0


def test_a_case_worked_by_hand():
    told, true = np.array([1, 1, 1, 0, 0, 0]), np.array([1, 1, 0, 1, 0, 0])
    assert accuracy(told, true) == f1(told, true) == pytest.approx(4 / 6)
    assert matthews_correlation(told, true) == pytest.approx((2 * 2 - 1 * 1) / 9)
