"""Certified bounds that do not rely on the solver."""

import highspy
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from identiformer.equations.certificates.intervals import weight_intervals
from identiformer.equations.certificates.linear_program import LinearProgram, dual_bound
from tests.equations.certificates.oracles import make_row, vertices


@given(seed=st.integers(0, 2**16))
def test_any_multipliers_yield_a_valid_bound(seed):
    rng = np.random.default_rng(seed)
    rows, inside = rng.normal(size=(3, 6)), rng.uniform(size=6)
    slack = rng.uniform(size=(2, 3))
    lower, upper = rows @ inside - slack[0], rows @ inside + slack[1]
    cost, ceiling = rng.normal(size=6), np.ones(6)
    best = -linprog(-cost, A_ub=np.vstack([rows, -rows]), b_ub=np.concatenate([upper, -lower]), bounds=(0, 1)).fun
    assert dual_bound(cost, rows, lower, upper, ceiling, rng.normal(size=3)) >= best - 1e-12
    found = LinearProgram(rows, ceiling).maximize(cost, lower, upper)
    assert found is not None
    assert found.value == pytest.approx(best, abs=1e-8)
    assert best - 1e-12 <= found.bound <= best + 1e-8


def solver_that_returns(**answers):
    """A solver that returns these values, one per entry, as its solution."""

    class Solver(highspy.Highs):
        def getSolution(self):
            solution = super().getSolution()
            for name, answer in answers.items():
                setattr(solution, name, [answer(place) for place in range(len(getattr(solution, name)))])
            return solution

    return Solver


@pytest.fixture
def case():
    rng = np.random.default_rng(1)
    row, values = make_row("softmax", 6, rng), rng.normal(size=(6, 2))
    return row, values, vertices(row, values)


def found_by(monkeypatch, solver, row, values):
    monkeypatch.setattr("identiformer.equations.certificates.linear_program.highspy.Highs", solver)
    return weight_intervals(row[None], values, tolerance=0.0)


def test_wrong_solutions_do_not_corrupt_certified_bounds(monkeypatch, case):
    row, values, every = case
    liar = solver_that_returns(col_value=lambda place: float(place == 0), row_dual=lambda place: 1.0)
    found = found_by(monkeypatch, liar, row, values)
    assert not found.confirmed.any()
    assert (found.low[0] <= every.min(0)).all()
    assert (found.high[0] >= every.max(0)).all()
    np.testing.assert_allclose(found.low_reached[0], row)


def test_an_unproved_optimum_is_not_confirmed(monkeypatch, case):
    row, values, every = case
    found = found_by(monkeypatch, solver_that_returns(row_dual=lambda place: 0.0), row, values)
    assert not found.confirmed.any()
    assert (found.high[0] >= every.max(0)).all()
    np.testing.assert_allclose(found.high_reached[0], every.max(0), atol=1e-7)


def test_nan_multipliers_fall_back_to_the_trivial_bound(monkeypatch, case):
    row, values, _ = case
    found = found_by(monkeypatch, solver_that_returns(row_dual=lambda place: float("nan")), row, values)
    assert (found.low == 0).all()
    np.testing.assert_allclose(found.high, 1.0)
    assert not found.confirmed.any()


def test_a_failing_solver_leaves_the_trivial_bound(monkeypatch, case):
    row, values, _ = case
    monkeypatch.setattr(LinearProgram, "maximize", lambda *_: None)
    found = weight_intervals(row[None], values, tolerance=1e-4)
    assert not found.confirmed.any()
    assert (found.low == 0).all()
    np.testing.assert_allclose(found.high, 1.0)
