"""Sums and quantiles that do not depend on the order of addition, against Python's exact fractions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from identiformer.errors import InputError
from identiformer.measures.corpus.state import BINS, QUANTILE_ERROR, histogram, mean, quantiles, split, sums, total

numbers = some.floats(-(2.0**30), 2.0**30).filter(lambda number: number == 0 or abs(number) > 2.0**-43)


@given(some.lists(numbers, min_size=1, max_size=30), some.randoms())
def test_sum_is_exact_in_any_order(values, chance):
    exact = float(sum(map(Fraction, values)))
    shuffled = chance.sample(values, len(values))
    limbs = [split(np.array(each)).sum(0) for each in (values, shuffled)]
    assert np.array_equal(*limbs)
    assert total(limbs[0]).item() == exact


@given(some.floats(-1, 1))
def test_splitting_loses_less_than_two_to_the_minus_96(number):
    kept = sum(Fraction(int(limb), 2 ** (32 * place)) for place, limb in enumerate(split(np.array(number))))
    assert abs(kept - Fraction(number)) < Fraction(1, 2**96)


def test_mean_skips_nan():
    added = [sums(np.array([value, np.nan])) for value in (1.0, 2.0)]
    limbs, counts = (sum(parts) for parts in zip(*added, strict=True))
    assert mean(limbs, counts).tolist() == pytest.approx([1.5, np.nan], nan_ok=True)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, 2.0**31])
def test_nan_infinity_and_large_numbers_are_rejected(wrong):
    with pytest.raises(InputError, match="finite numbers below"):
        split(np.array([0.0, wrong]))


@given(some.lists(some.floats(0, 1), min_size=1, max_size=60), some.floats(0.01, 0.99))
def test_quantile_error_is_a_bound(shares, level):
    found = quantiles(histogram(np.array([shares])), (level,))[0, 0]
    true = np.quantile(shares, level, method="inverted_cdf")
    assert abs(found - true) <= QUANTILE_ERROR + 1e-12


def test_histogram_counts_everything_once():
    assert histogram(np.array([[0.0, 1.0, 0.5]])).sum() == 3
    assert histogram(np.array([1.0]))[BINS - 1] == 1
    assert np.isnan(quantiles(np.zeros((2, BINS), dtype=np.int64), (0.5,))).all()
