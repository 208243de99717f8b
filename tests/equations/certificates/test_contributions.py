"""Certified contributions against SciPy's programs, brute force over vertices, and alternative rows drawn at random."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from identiformer.equations.attention.contributions import head_contributions
from identiformer.equations.certificates.contributions import CATEGORIES, cascade, contribution_bounds, set_contribution_bounds
from identiformer.equations.certificates.intervals import feasible_sets, weight_intervals
from tests.equations.certificates.oracles import make_case, make_row, small, vertices


def per_weight(row, values):
    output = row @ values
    return values @ output / (output @ output)


def conditioned(row, values):
    return np.linalg.norm(row @ values) > 0.05 * (row @ np.linalg.norm(values, axis=1))


@given(**small, members=st.integers(0, 2**7 - 1))
def test_sets_match_brute_force(keys, width, row, kind, sink, seed, members):
    row, values = make_case(keys, width, row, kind, sink, seed)
    if not conditioned(row, values):
        return
    chosen = np.array([bool(members >> key & 1) for key in range(keys)])
    gains = np.where(chosen, per_weight(row, values), 0.0)
    everything = vertices(row, values, sink) @ gains
    ((_, _, feasible),) = feasible_sets(torch.tensor(row)[None], torch.tensor(values), tolerance=0.0, sink=sink)
    low, high = set_contribution_bounds(feasible, chosen)
    np.testing.assert_allclose([low, high], [everything.min(), everything.max()], rtol=0, atol=1e-6)
    assert low <= gains @ row + 1e-9
    assert gains @ row - 1e-9 <= high


def test_keys_match_scipy():
    rng = np.random.default_rng(0)
    for seed in range(4):
        row, values = make_row("softmax", 24, rng), rng.normal(size=(24, 6 + seed))
        found = head_contributions(torch.tensor(row)[None, None], torch.tensor(values)[None])
        bounds = weight_intervals(torch.tensor(row)[None], torch.tensor(values), tolerance=0.0)
        low, high = contribution_bounds(bounds.low, bounds.high, found.per_weight[0], found.relative_length[0], 0.0)
        constraints, target = np.hstack([values, np.ones((24, 1))]).T, row @ np.hstack([values, np.ones((24, 1))])
        for key, gain in enumerate(per_weight(row, values)):
            ends = [
                sign * linprog(sign * gain * np.eye(24)[key], A_eq=constraints, b_eq=target, bounds=(0, None)).fun
                for sign in (1, -1)
            ]
            np.testing.assert_allclose([low[0, key], high[0, key]], ends, rtol=0, atol=1e-6)


@given(seed=st.integers(0, 2**32 - 1), tolerance=st.sampled_from([1e-6, 1e-3, 0.1, 0.5]))
def test_no_row_within_the_tolerance_leaves_the_bounds(seed, tolerance):
    rng = np.random.default_rng(seed)
    row, values = make_row("softmax", 6, rng), rng.normal(size=(6, 3))
    found = head_contributions(torch.tensor(row)[None, None], torch.tensor(values)[None])
    bounds = weight_intervals(torch.tensor(row)[None], torch.tensor(values), tolerance=tolerance)
    ends = contribution_bounds(bounds.low, bounds.high, found.per_weight[0], found.relative_length[0], tolerance)
    low, high = (end[0].numpy() for end in ends)
    chosen = rng.random(6) < 0.5
    ((_, _, feasible),) = feasible_sets(torch.tensor(row)[None], torch.tensor(values), tolerance=tolerance)
    set_low, set_high = set_contribution_bounds(feasible, chosen)
    output = row @ values
    for _ in range(50):
        # A random direction that keeps the sum, as far as output and sign allow.
        direction = rng.normal(size=6)
        direction -= direction.mean()
        shrinking = np.where(direction < 0, -row / np.minimum(direction, -1e-300), np.inf).min()
        other = row + direction * min(shrinking, tolerance * np.linalg.norm(output) / np.linalg.norm(direction @ values))
        shares = other * per_weight_of(other @ values, values)
        assert (low - 1e-9 <= shares).all()
        assert (shares <= high + 1e-9).all()
        assert set_low - 1e-9 <= shares[chosen].sum() <= set_high + 1e-9


def per_weight_of(output, values):
    return values @ output / (output @ output)


def test_the_largest_part_names_what_a_weight_is():
    weights = torch.tensor([0.4, 0.3, 0.2, 0.1]).double()
    low = torch.tensor([0.0, 0.3, 0.2, 0.1]).double()
    contribution = torch.tensor([0.9, -0.2, 0.5, 0.4]).double()
    own_content = torch.tensor([1.0, 1.0, 0.2, 0.9]).double()
    passed = cascade(weights, low, contribution, own_content)
    torch.testing.assert_close(passed.certified, low)
    torch.testing.assert_close(passed.contributing, torch.tensor([0.0, 0.0, 0.2, 0.1]).double())
    torch.testing.assert_close(passed.readable, torch.tensor([0.0, 0.0, 0.04, 0.09]).double())
    assert [CATEGORIES[index] for index in passed.category(weights)] == list(CATEGORIES)


def test_a_category_is_unknown_where_the_deciding_test_is():
    weights, low = torch.tensor([0.4, 0.3, 0.2]).double(), torch.tensor([0.0, 0.3, 0.2]).double()
    unknown = torch.full((3,), torch.nan).double()
    without_output = cascade(weights, low, unknown, torch.ones(3).double())
    assert without_output.category(weights).tolist() == [0, -1, -1]
    contribution = torch.tensor([0.4, 0.0, 0.5]).double()
    assert cascade(weights, low, contribution, unknown).category(weights).tolist() == [0, 1, -1]
    assert cascade(weights, unknown, contribution, weights).category(weights).tolist() == [-1, -1, -1]


def test_an_output_of_zero_has_no_contribution():
    ((_, _, feasible),) = feasible_sets(torch.tensor([[0.5, 0.5]]), torch.tensor([[1.0], [-1.0]]), tolerance=1e-4)
    assert np.isnan(set_contribution_bounds(feasible, np.array([True, False]))).all()
    assert pytest.approx(0) == feasible.output_norm
