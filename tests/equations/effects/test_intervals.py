"""Conformal quantiles against simulated coverage."""

import numpy as np
import pytest

from identiformer.equations.effects.intervals import conformal_quantile, missed_share


@pytest.mark.parametrize("draw", [np.random.Generator.standard_cauchy, np.random.Generator.standard_exponential])
def test_a_further_score_is_covered(draw):
    generator = np.random.default_rng(0)
    covered = [abs(draw(generator)) <= conformal_quantile(np.abs(draw(generator, 40))) for _ in range(4000)]
    assert 0.94 < np.mean(covered) < 0.97  # 39 of 41


def test_all_of_a_sample_bounds_a_share_of_the_rest():
    generator = np.random.default_rng(1)
    exceeded = [(generator.random(10_000) > generator.random(40).max()).mean() for _ in range(2000)]
    assert np.mean(np.array(exceeded) <= missed_share(40)) == pytest.approx(0.95, abs=0.015)
    assert missed_share(0) == 1
