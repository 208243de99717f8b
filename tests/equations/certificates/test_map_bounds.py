"""Bounds of whole maps: never tighter than rows with the same output allow, and close to solving every program with SciPy."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from identiformer.equations.attention.visibility import Visibility
from identiformer.equations.certificates.intervals import weight_intervals
from identiformer.equations.certificates.map_bounds import map_bounds
from identiformer.errors import InputError


def make_head(keys, width, seed, mask=None, sharpness=2.0):
    rng = np.random.default_rng(seed)
    weights = np.exp(sharpness * rng.normal(size=(keys, keys)))
    if mask is not None:
        weights *= mask.dense().numpy()
    return torch.tensor(weights / weights.sum(-1, keepdims=True)), torch.tensor(rng.normal(size=(keys, width)) + 0.3)


def extreme(row, values, key, sign, half):
    """SciPy's smallest or largest weight of a key over |(a' - a)VX| ≤ half in the coordinates X of the values' own axes."""
    axes = np.linalg.svd(values, full_matrices=False)[2].T
    moves = (values @ axes).T
    center = moves @ row
    found = linprog(
        -sign * np.eye(len(row))[key],
        A_ub=np.vstack([moves, -moves]),
        b_ub=np.concatenate([center + half, half - center]),
        A_eq=np.ones((1, len(row))),
        b_eq=[row.sum()],
        bounds=(0, None),
    )
    return float(found.x[key])


MASKS = {"full": None, "causal": Visibility.causal(9), "window": Visibility.window(9, 6)}


@pytest.mark.parametrize("mask", MASKS)
@given(seed=st.integers(0, 2**32 - 1), width=st.integers(1, 6), tolerance=st.sampled_from([1e-6, 1e-3, 0.05]))
@settings(max_examples=6, deadline=None)
def test_bounds_hold_and_are_close(mask, seed, width, tolerance):
    weights, values = make_head(9, width, seed, MASKS[mask])
    bounds = map_bounds(weights, values, MASKS[mask], tolerance=tolerance, gap=0.01)
    for query, row in enumerate(weights.numpy()):
        seen = np.arange(9) if MASKS[mask] is None else np.flatnonzero(MASKS[mask].dense()[query])
        visible_row, visible_values = row[seen], values.numpy()[seen]
        allowed = tolerance * np.linalg.norm(visible_row @ visible_values)
        certified = 0.0
        for index, key in enumerate(seen):
            # Rows in the box inside the ball must not leave the bounds.
            low = extreme(visible_row, visible_values, index, -1, allowed / np.sqrt(min(visible_values.shape)))
            high = extreme(visible_row, visible_values, index, 1, allowed / np.sqrt(min(visible_values.shape)))
            assert bounds.low[query, key] <= low + 1e-7
            assert bounds.high[query, key] >= high - 1e-7
            if mask == "full":
                certified += extreme(visible_row, visible_values, index, -1, allowed)
        assert float(bounds.low[query, seen].sum()) >= certified - 0.01 - 1e-6


def test_a_gap_of_zero_solves_every_lower_bound():
    weights, values = make_head(20, 4, 0)
    bounds = map_bounds(weights, values, tolerance=1e-8, gap=0.0)
    solved = weight_intervals(weights, values, tolerance=1e-8)
    torch.testing.assert_close(bounds.low, solved.low, rtol=0, atol=1e-5)
    assert bool((bounds.high >= solved.high_reached - 1e-7).all())
    torch.testing.assert_close(bounds.high[bounds.high_solved], solved.high[bounds.high_solved], rtol=0, atol=1e-5)
    assert int(bounds.high_solved.sum()) == 2 * 20


def test_screening_replaces_most_programs():
    weights, values = make_head(60, 8, 1, sharpness=3.0)
    bounds = map_bounds(weights, values)
    assert 0 < float(bounds.low_solved.double().mean()) < 0.2
    assert float(bounds.high_solved.double().mean()) == pytest.approx(2 / 60)


def test_lower_bounds_alone():
    weights, values = make_head(20, 4, 3, Visibility.causal(20))
    solved, screened = (map_bounds(weights, values, Visibility.causal(20), upper=upper) for upper in (True, False))
    torch.testing.assert_close(screened.low, solved.low, equal_nan=True)
    assert not screened.high_solved.any()
    others = solved.low.nansum(-1, keepdim=True) - solved.low
    torch.testing.assert_close(
        screened.high, (1 - others).where(~solved.low.isnan(), torch.nan), atol=1e-6, rtol=0, equal_nan=True
    )


def test_a_learned_sink_lets_the_sum_fall():
    weights, values = make_head(12, 3, 2)
    with_sink = map_bounds(0.5 * weights, values, tolerance=1e-6, sink=True)
    alone = weight_intervals(0.5 * weights, values, tolerance=1e-6, sink=True)
    assert bool((with_sink.low <= alone.low_reached + 1e-7).all())
    assert bool((with_sink.high >= alone.high_reached - 1e-7).all())


def test_edge_cases():
    one = map_bounds(torch.ones(1, 1), torch.ones(1, 3))
    assert float(one.low) == pytest.approx(1, abs=1e-3)
    assert float(one.high) == pytest.approx(1, abs=1e-3)
    one_hot = map_bounds(torch.eye(5), torch.eye(5))
    torch.testing.assert_close(one_hot.low, torch.eye(5).double(), rtol=0, atol=1e-3)
    zero = map_bounds(torch.full((3, 3), 1 / 3), torch.zeros(3, 2))
    assert float(zero.low.max()) <= 1e-9
    causal = map_bounds(*make_head(6, 2, 3, Visibility.causal(6)), Visibility.causal(6))
    assert torch.equal(causal.low.isnan(), ~Visibility.causal(6).dense())
    half = map_bounds(torch.full((2, 2), 0.5).half(), torch.eye(2).half(), tolerance=2e-3)
    assert float(half.low.min()) > 0.49


def test_bad_arguments():
    weights, values = make_head(4, 2, 0)
    with pytest.raises(InputError, match="tolerance above 0"):
        map_bounds(weights, values, tolerance=0.0)
    with pytest.raises(InputError, match="tolerance from 0 to 1"):
        map_bounds(weights, values, tolerance=1.5)
    with pytest.raises(InputError, match="gap from 0 to 1"):
        map_bounds(weights, values, gap=-1.0)
