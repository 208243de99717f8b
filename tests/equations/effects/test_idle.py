"""Bisection against trying every level."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from identiformer.equations.effects.idle import LEVELS, largest_within_budget, score_levels


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40), st.floats(0.001, 2), st.integers(0, 99))
def test_the_set_is_the_largest_that_stays_within_the_budget(sizes, budget, seed):
    generator = np.random.default_rng(seed)
    places = np.sort(generator.choice(LEVELS, len(sizes), replace=False))
    mass = np.zeros(LEVELS)
    mass[places] = generator.uniform(0.1, 1, len(sizes))
    tried = []

    def change(level):
        tried.append(level)
        return float(sum(size for size, place in zip(sizes, places, strict=True) if place - LEVELS // 2 <= level))

    found = largest_within_budget(mass, change, budget, precision=0.0)
    within = [place for place in places if change(place - LEVELS // 2) <= budget]
    expected = mass[: within[-1] + 1].sum() / mass.sum() if within else 0.0
    np.testing.assert_allclose(found.share, expected)
    assert found.change <= budget
    assert found.runs == len(tried) - len(places)


def test_levels_keep_the_order_of_scores():
    scores = torch.rand(1000, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) ** 8
    levels = score_levels(scores).int()
    order = scores.argsort()
    assert (levels[order].diff() >= 0).all()
    assert len(levels.unique()) > 900
