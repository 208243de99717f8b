"""Intervals of weights against every vertex of small feasible sets, and against cold SciPy programs on large ones."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize

from identiformer.equations.certificates import alternatives
from identiformer.equations.certificates.intervals import certify_argmax, feasible_sets, weight_intervals
from identiformer.errors import InputError
from tests.equations.certificates.oracles import least_in_ball, make_case, make_row, small, vertices


@given(**small)
def test_exact_intervals_are_those_of_all_vertices(keys, width, row, kind, sink, seed):
    row, values = make_case(keys, width, row, kind, sink, seed)
    found = weight_intervals(row[None], values, tolerance=0.0, sink=sink)
    every = vertices(row, values, sink)
    np.testing.assert_allclose(found.low[0], every.min(0), atol=1e-7)
    np.testing.assert_allclose(found.high[0], every.max(0), atol=1e-7)
    assert found.confirmed.all()
    np.testing.assert_allclose(found.low_reached, found.low, atol=1e-7)
    np.testing.assert_allclose(found.high_reached, found.high, atol=1e-7)


@given(**small)
def test_dimension_and_farthest_are_those_of_all_vertices(keys, width, row, kind, sink, seed):
    row, values = make_case(keys, width, row, kind, sink, seed)
    _, _, feasible = next(iter(feasible_sets(torch.tensor(row)[None], torch.tensor(values), tolerance=0.0, sink=sink)))
    every = vertices(row, values, sink)
    assert feasible.dimension == np.linalg.matrix_rank(every - every[0], tol=1e-7)
    found = weight_intervals(row[None], values, tolerance=0.0, sink=sink)
    most = max(alternatives.total_variation(vertex, row) for vertex in every)
    farthest = alternatives.farthest_alternative(feasible)
    assert alternatives.total_variation(farthest, row) <= most + 1e-7
    assert most <= alternatives.total_variation_bound(feasible, found.low[0], found.high[0]) + 1e-7
    sparsest = alternatives.sparsest_alternative(feasible)
    augmented = values if sink else np.hstack([values, np.ones((keys, 1))])
    assert feasible.fixed or (sparsest > 0).sum() <= np.linalg.matrix_rank(augmented, tol=1e-9) + int(sink)
    for other in (farthest, sparsest, alternatives.null_alternative(feasible)):
        assert feasible.holds(other)
        np.testing.assert_allclose(other @ values, row @ values, atol=1e-7)


@given(**small, known=st.booleans())
def test_argmax_is_certified_where_it_is_largest_at_every_vertex(keys, width, row, kind, sink, seed, known):
    row, values = make_case(keys, width, row, kind, sink, seed)
    _, _, feasible = next(iter(feasible_sets(torch.tensor(row)[None], torch.tensor(values), tolerance=0.0, sink=sink)))
    found = weight_intervals(row[None], values, tolerance=0.0, sink=sink)
    unknown = np.full(keys, np.nan)
    verdict = certify_argmax(feasible, *((found.low[0], found.high[0]) if known else (unknown, unknown)))
    every, first = vertices(row, values, sink), int(row.argmax())
    lead = (np.delete(every, first, axis=1) - every[:, [first]]).max() if keys > 1 else -1.0
    if abs(lead) > 1e-6:  # ties are neither certified nor refuted
        assert verdict.certified == (lead < 0)
        assert (verdict.rival is not None) == (lead > 0)
    if verdict.rival is not None:
        assert feasible.holds(verdict.row)
        assert verdict.row[verdict.rival] > verdict.row[first]


@given(**small)
def test_intervals_with_tolerance_contain_the_exact_ones_and_converge_to_them(keys, width, row, kind, sink, seed):
    row, values = make_case(keys, width, row, kind, sink, seed)
    last = None
    exact = weight_intervals(row[None], values, tolerance=0.0, sink=sink)
    for tolerance in (1e-1, 1e-3, 1e-6):
        found = weight_intervals(row[None], values, tolerance=tolerance, sink=sink)
        assert (found.low <= found.low_reached + 1e-9).all()
        assert (found.high_reached <= found.high + 1e-9).all()
        assert (found.low_reached <= exact.low_reached + 1e-7).all()
        assert (found.high_reached >= exact.high_reached - 1e-7).all()
        if last is not None:
            assert (found.low >= last.low - 1e-9).all()
            assert (found.high <= last.high + 1e-9).all()
        last = found
    # The rate depends on the smallest singular value and on the angles of the polytope's corners; the difference must
    # vanish with the tolerance.
    final = weight_intervals(row[None], values, tolerance=1e-12, sink=sink)
    np.testing.assert_allclose(final.low, exact.low, atol=1e-5)
    np.testing.assert_allclose(final.high, exact.high, atol=1e-5)


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 2**16), tolerance=st.sampled_from([1e-3, 1e-1]))
def test_no_row_within_the_tolerance_leaves_its_interval(seed, tolerance):
    rng = np.random.default_rng(seed)
    row, values = make_row("softmax", 6, rng), rng.normal(size=(6, 2))
    projection = rng.normal(size=(2, 5))
    found = weight_intervals(row[None], values, tolerance=tolerance, projection=projection)
    directions = rng.normal(size=(4000, 6))
    directions -= directions.mean(-1, keepdims=True)
    reach = np.where(directions < 0, row / np.where(directions < 0, -directions, 1), np.inf).min(-1)
    moved = np.linalg.norm(directions @ values @ projection, axis=-1)
    reach = np.minimum(reach, tolerance * np.linalg.norm(row @ values @ projection) / moved)
    others = row + reach[:, None] * directions
    assert (others >= found.low - 1e-9).all()
    assert (others <= found.high + 1e-9).all()


def box_around(row, values, change):
    """The box around the ball ‖(a' - a)V‖ ≤ change as constraints for SciPy, and its half sides, along the singular vectors."""
    left, sigma, _ = np.linalg.svd(values, full_matrices=False)
    half = change / sigma
    constraints = {
        "A_ub": np.vstack([left.T, -left.T]),
        "b_ub": np.concatenate([row @ left + half, half - row @ left]),
        "A_eq": np.ones((1, len(row))),
        "b_eq": [row.sum()],
    }
    return constraints, half


def bounds_by_scipy(row, values, tolerance, share, ball):
    """Bounds from cold calls over a box, or over the ball inside it."""
    constraints, half = box_around(row, values, share * tolerance * np.linalg.norm(row @ values))
    costs = np.eye(len(row))[:8]
    found = [(linprog(c, **constraints), linprog(-c, **constraints)) for c in costs]
    return np.array([[least_in_ball(end, half) if ball else end.fun for end in ends] for ends in found]) * [1, -1]


@pytest.mark.parametrize("tolerance", [0.0, 1e-4])
@pytest.mark.parametrize("kind", ["softmax", "peaked", "with zeros"])
def test_128_keys_against_cold_calls(kind, tolerance):
    rng = np.random.default_rng(3)
    row, values = make_row(kind, 128, rng), rng.normal(size=(128, 64))
    found = weight_intervals(row[None], values, tolerance=tolerance, keys=range(8))
    outer = bounds_by_scipy(row, values, tolerance, 1.0, ball=True).clip(min=0)
    inner = bounds_by_scipy(row, values, tolerance, 1 / 8, ball=False)
    np.testing.assert_allclose(found.low[0, :8], outer[:, 0], atol=1e-7)
    np.testing.assert_allclose(found.high[0, :8], outer[:, 1], atol=1e-7)
    np.testing.assert_allclose(found.low_reached[0, :8], inner[:, 0], atol=1e-7)
    np.testing.assert_allclose(found.high_reached[0, :8], inner[:, 1], atol=1e-7)
    assert found.confirmed[0, :8].all()
    assert np.isnan(found.low[0, 8:]).all()


def test_bounds_are_between_those_of_the_box_and_the_optimum_over_the_ball():
    gains, gaps = [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        row, values = make_row("softmax", 9, rng), rng.normal(size=(9, 5))
        found = weight_intervals(row[None], values, tolerance=0.02, keys=range(3))
        allowed = 0.02 * np.linalg.norm(row @ values)
        constraints, _ = box_around(row, values, allowed)
        within = [
            {"type": "ineq", "fun": lambda a, row=row, v=values, r=allowed: r**2 - ((a - row) @ v) @ ((a - row) @ v)},
            {"type": "eq", "fun": lambda a, row=row: a.sum() - row.sum()},
        ]
        for key, sign in itertools.product(range(3), (1, -1)):
            cost = sign * np.eye(9)[key]
            best = minimize(lambda a, c=cost: c @ a, row, bounds=[(0, 1)] * 9, constraints=within, options={"ftol": 1e-12})
            proved = float(sign * (found.low if sign == 1 else found.high)[0, key])
            in_box = linprog(cost, **constraints).fun
            assert in_box - 1e-7 <= proved <= best.fun + 1e-6
            gains.append(proved - in_box)
            gaps.append(best.fun - in_box)
    assert np.mean(gains) > 0.5 * np.mean(gaps) > 1e-4


def test_a_row_that_cannot_move_needs_no_program():
    rng = np.random.default_rng(0)
    row, values = torch.tensor(make_row("softmax", 12, rng)), torch.tensor(rng.normal(size=(12, 16)))
    _, _, feasible = next(iter(feasible_sets(row[None], values, tolerance=0.0)))
    interval = feasible.interval(np.eye(12)[4])
    assert interval.low == interval.high == float(row[4])
    assert interval.confirmed
    assert feasible.dimension == 0
    assert "program" not in vars(feasible.coordinates)


def test_rows_move_only_among_visible_keys():
    rng = np.random.default_rng(5)
    values = rng.normal(size=(9, 2))
    weights = np.tril(np.exp(rng.normal(size=(9, 9))))
    weights /= weights.sum(-1, keepdims=True)
    found = weight_intervals(weights, values, np.tril(np.ones((9, 9), dtype=bool)), tolerance=0.0)
    for query in (2, 5, 8):
        every = vertices(weights[query, : query + 1], values[: query + 1])
        np.testing.assert_allclose(found.high[query, : query + 1], every.max(0), atol=1e-7)
        assert np.isnan(found.high[query, query + 1 :]).all()
    assert (found.low[:3] == np.where(weights[:3] > 0, weights[:3], np.nan))[:, 0].all()  # three keys, rank([V, 1]) = 3


def test_intervals_do_not_depend_on_the_value_bias():
    rng = np.random.default_rng(6)
    row, values = make_row("softmax", 8, rng)[None], rng.normal(size=(8, 3))
    with_bias = weight_intervals(row, values + rng.normal(size=3), tolerance=0.0)
    np.testing.assert_allclose(weight_intervals(row, values, tolerance=0.0).high, with_bias.high, atol=1e-8)


def test_a_large_weight_with_small_effective_attention_can_be_determined():
    rng = np.random.default_rng(7)
    values = rng.normal(size=(200, 64))
    row = np.full(200, 0.002 / 199)
    row[0] = 0.998
    effective = row @ (values @ np.linalg.pinv(values))
    found = weight_intervals(row[None], values, tolerance=0.0, keys=[0])
    assert effective[0] < 0.5
    assert found.high[0, 0] - found.low[0, 0] < 1e-3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tolerance": -0.1}, "tolerance from 0 to 1"),
        ({"keys": [9]}, "keys from 0 to 5, got 9"),
        ({"weights": np.array([[0.5, 0.7, -0.2, 0, 0, 0]])}, "nonnegative"),
        ({"weights": np.full((1, 6), 0.1)}, "sum to one"),
        ({"values": np.ones((5, 2))}, "as many keys"),
    ],
)
def test_bad_input(options, message):
    given = {"weights": np.full((1, 6), 1 / 6), "values": np.random.default_rng(0).normal(size=(6, 2)), **options}
    with pytest.raises(InputError, match=message):
        weight_intervals(given.pop("weights"), given.pop("values"), **given)


def one_set(row, values, **options):
    return next(iter(feasible_sets(torch.tensor(row)[None], torch.tensor(values), **options)))[2]


def test_a_projection_that_amplifies_noise_directions_of_the_values():
    values, projection = np.diag([1.0, 0.003]), np.array([[0.003, 3e-5], [1, 0]], dtype=np.float32)
    row, other = np.array([0.7, 0.3]), np.array([0.2, 0.8])
    moved = np.linalg.norm((other - row) @ values @ projection) / np.linalg.norm(row @ values @ projection)
    assert moved < 1e-2
    found = weight_intervals(row[None], values, tolerance=1e-2, projection=projection, precision=torch.bfloat16)
    assert found.low[0, 0] <= other[0]
    assert found.high[0, 1] >= other[1]


def test_directions_that_the_projection_discards_are_free_at_tolerance_zero():
    projection = np.array([[1.0, 0], [1, 0], [0, 1]])
    found = weight_intervals(np.array([[0.5, 0.3, 0.2]]), np.eye(3), projection=projection, tolerance=0.0)
    np.testing.assert_allclose(found.low, [[0, 0, 0.2]], atol=1e-7)
    np.testing.assert_allclose(found.high, [[0.8, 0.8, 0.2]], atol=1e-7)


def test_rows_that_sum_to_a_little_more_than_one():
    row, values = np.array([0.55, 0.4508]), np.array([[1.0], [0.0]])
    feasible = one_set(row, values, tolerance=1 - 0.5001 / 0.55, sink=True)
    assert feasible.holds(np.array([0.50011, 0.50069]))
    assert not certify_argmax(feasible, np.full(2, np.nan), np.full(2, np.nan)).certified
    row, values = np.array([0.5004, 0.5004, 0, 0]), np.array([[1.0], [2.0], [1.0], [2.0]])
    feasible = one_set(row, values, tolerance=1e-4)
    intervals = [feasible.interval(cost) for cost in np.eye(4)]
    low, high = (np.array([getattr(each, end) for each in intervals]) for end in ("low", "high"))
    farthest = alternatives.total_variation(alternatives.farthest_alternative(feasible), row)
    assert farthest <= alternatives.total_variation_bound(feasible, low, high) + 1e-9


def test_reached_rows_are_within_the_tolerance_where_values_are_noise():
    values = np.array([[1, 0], [-1, 0], [1, 4e-7], [-1, 4e-7]], dtype=np.float32)
    feasible = one_set(np.full(4, 0.25), values, tolerance=1e-4)
    feasible.interval(np.eye(4)[0])
    assert all(feasible.change(vertex) <= 1.01e-4 for vertex in feasible.solver.vertices)


def test_zero_values_constrain_only_the_sum():
    feasible = one_set(make_row("softmax", 4, np.random.default_rng(0)), np.zeros((4, 2)), tolerance=0.0)
    assert feasible.dimension == 3
    assert feasible.holds(alternatives.null_alternative(feasible))
    found = weight_intervals(np.full((1, 4), 0.25), np.zeros((4, 2)), tolerance=1e-4)
    np.testing.assert_allclose(found.high, 1.0, atol=1e-7)


def test_weights_that_nearly_underflow_do_not_loosen_the_bound_on_total_variation():
    rng = np.random.default_rng(4)
    values = rng.normal(size=(12, 3))
    bounds = []
    for tiny in (1e-20, 0.0):
        row = np.append(np.full(8, tiny), [0.4, 0.3, 0.2, 0.1])
        feasible = one_set(row, values, tolerance=1e-4)
        intervals = [feasible.interval(cost) for cost in np.eye(12)]
        low, high = (np.array([getattr(each, end) for each in intervals]) for end in ("low", "high"))
        bounds.append(alternatives.total_variation_bound(feasible, low, high))
    assert bounds[0] == pytest.approx(bounds[1], abs=1e-6)
