"""Variants of effective attention against textbook formulas and a general solver."""

import numpy as np
import pytest
import scipy.optimize
import torch
from hypothesis import given

from identiformer.equations import (
    Visibility,
    effective_attention,
    maximum_entropy_attention,
    minimum_norm_attention,
    soft_attention,
    sum_preserving_attention,
)
from tests.equations import oracles

SIMPLEX = (minimum_norm_attention, maximum_entropy_attention)


def problem(keys=14, width=4, sharpness=1.5, seed=0):
    generator = np.random.default_rng(seed)
    weights = oracles.softmax(generator.normal(size=(1, 3, keys)) * sharpness, np.ones((3, keys), bool)).astype(np.float64)
    return weights, generator.normal(size=(1, keys, width))


@given(oracles.attentions())
def test_sum_and_output_are_preserved(case):
    weights, values, visible = case
    kept = sum_preserving_attention(weights, values, visible).astype(np.float64)
    repeated = np.repeat(values, len(weights) // len(values), 0).astype(np.float64)
    np.testing.assert_allclose(kept.sum(-1), weights.sum(-1), atol=1e-4)
    scale = np.linalg.norm(repeated, ord=2, axis=(1, 2)).max()
    np.testing.assert_allclose(kept @ repeated, weights.astype(np.float64) @ repeated, atol=1e-4 * scale)
    assert not kept[:, ~visible].any()


def test_sum_preserving_matches_the_formula_and_ignores_the_bias():
    """a⊥ + (1 - a⊥·1)u/‖u‖² with u = (I - P)1."""
    weights, values = problem()
    left = np.linalg.svd(values[0], full_matrices=False)[0]
    ones = np.ones(len(left))
    u = ones - left @ (left.T @ ones)
    effective = effective_attention(weights, values)
    formula = effective + (weights - effective).sum(-1, keepdims=True) * u / (u @ u)
    np.testing.assert_allclose(sum_preserving_attention(weights, values), formula, atol=1e-9)
    biased = sum_preserving_attention(weights, values + np.arange(4))
    np.testing.assert_allclose(biased, formula, atol=1e-9)


def test_soft_matches_the_formula_and_converges_to_effective_attention():
    weights, values = problem()
    gram = values[0].T @ values[0]
    ridge = (0.1 * np.linalg.norm(values[0], 2)) ** 2
    formula = weights[0] @ values[0] @ np.linalg.inv(gram + ridge * np.eye(4)) @ values[0].T
    np.testing.assert_allclose(soft_attention(weights, values, epsilon=0.1)[0], formula, atol=1e-9)
    np.testing.assert_allclose(soft_attention(weights, values, epsilon=1e-6), effective_attention(weights, values), atol=1e-9)


def test_soft_attention_of_causal_rows():
    values, visible = torch.randn(1, 40, 4), Visibility.causal(40)
    weights = torch.randn(1, 40, 40).masked_fill(~visible.dense(), -torch.inf).softmax(-1)
    ours = soft_attention(weights, values, visible, epsilon=0.05)
    ridge = (0.05 * torch.linalg.matrix_norm(values[0].double(), 2)) ** 2
    for row in (0, 3, 20, 39):
        seen = values[0, : row + 1].double()
        output = weights[0, row, : row + 1].double() @ seen
        expected = seen @ torch.linalg.solve(seen.mT @ seen + ridge * torch.eye(4), output)
        torch.testing.assert_close(ours[0, row, : row + 1].double(), expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("variant", "objective"),
    [
        (minimum_norm_attention, lambda a: a @ a),
        (maximum_entropy_attention, lambda a: (a * np.log(np.maximum(a, 1e-300))).sum()),
    ],
)
@pytest.mark.parametrize("sharpness", [0.3, 1.5])
def test_simplex_variants_are_as_good_as_a_general_solver(variant, objective, sharpness):
    weights, values = problem(sharpness=sharpness)
    constraints = {"type": "eq", "fun": lambda a, row: np.append((a - row) @ values[0], a.sum() - 1)}
    for ours, row in zip(variant(weights, values)[0], weights[0], strict=True):
        found = scipy.optimize.minimize(
            objective,
            row,
            bounds=[(0, 1)] * len(row),
            constraints={**constraints, "args": (row,)},
            options={"ftol": 1e-13, "maxiter": 2000},
        )
        assert objective(ours) <= found.fun + 1e-6
        np.testing.assert_allclose(ours, found.x, atol=2e-3)


@pytest.mark.parametrize("variant", SIMPLEX)
@pytest.mark.parametrize("sharpness", [0.3, 2.0, 20.0])
@pytest.mark.parametrize("causal", [False, True])
def test_simplex_variants_are_probabilities_with_the_same_output(variant, sharpness, causal):
    visible = Visibility.causal(40) if causal else Visibility.full(40, 40)
    values = torch.randn(2, 40, 8)
    weights = (torch.randn(4, 40, 40) * sharpness).masked_fill(~visible.dense(), -torch.inf).softmax(-1).double()
    ours = variant(weights, values, visible)
    assert not ours.isnan().any()
    assert (ours >= 0).all()
    assert not ours[:, ~visible.dense()].any()
    torch.testing.assert_close(ours.sum(-1), weights.sum(-1), atol=1e-6, rtol=0)
    repeated = values.double().repeat_interleave(2, 0)
    torch.testing.assert_close(ours @ repeated, weights @ repeated, atol=1e-6, rtol=0)
    if variant is minimum_norm_attention:
        assert (ours.square().sum(-1) <= weights.square().sum(-1) + 1e-7).all()
    else:
        assert (torch.special.entr(ours).sum(-1) >= torch.special.entr(weights).sum(-1) - 1e-6).all()


@pytest.mark.parametrize("variant", [*SIMPLEX, sum_preserving_attention])
def test_without_values_only_the_sum_is_kept(variant):
    visible = Visibility.causal(5).dense()
    weights = torch.randn(2, 5, 5).masked_fill(~visible, -torch.inf).softmax(-1)
    uniform = visible / visible.sum(-1, keepdim=True)
    torch.testing.assert_close(variant(weights, torch.zeros(1, 5, 3), visible), uniform.expand(2, -1, -1), atol=1e-6, rtol=0)


@pytest.mark.parametrize("size", [1e-36, 1e-25, 1e25, 1e36])
def test_the_sum_is_kept_at_the_limits_of_float32(size):
    weights, values = torch.randn(2, 9, 9).softmax(-1), torch.randn(1, 9, 3)
    scaled = sum_preserving_attention(weights, values * size)
    torch.testing.assert_close(scaled, sum_preserving_attention(weights, values), atol=1e-5, rtol=0)


@pytest.mark.parametrize("variant", [*SIMPLEX, sum_preserving_attention])
def test_a_sink_is_one_more_key_without_a_value(variant):
    values = torch.randn(1, 20, 4).double()
    weights = torch.randn(1, 5, 21).double().softmax(-1)
    ours = variant(weights[..., :20], values, sink=True)
    extended = variant(weights, torch.nn.functional.pad(values, (0, 0, 0, 1)))[..., :20]
    torch.testing.assert_close(ours, extended, atol=1e-6, rtol=0)
    torch.testing.assert_close(ours @ values, weights[..., :20] @ values, atol=1e-6, rtol=0)
    assert (ours.sum(-1) <= 1 + 1e-6).all()
