"""Effective attention of ill-conditioned values: A⊥V = AV to the rounding of the precision in which V was produced."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from identiformer.equations import (
    Visibility,
    effective_attention,
    factor_outputs,
    leverage,
    numerical_rank,
)
from identiformer.equations.attention.rank import precision_of
from tests.equations import oracles

SHAPES = ("line", "graded", "nearly repeated", "line at first", "shifted", "one outlier")


def head(shape, keys, width, condition, visible, generator):
    """Weights and values of one head; the values that some or all rows see have about this condition."""
    normal, noise = generator.normal(size=(2, keys, width))
    line = np.outer(generator.normal(size=keys), generator.normal(size=width)) + noise / condition
    side = min(keys, width)
    values = {
        "line": line,
        "graded": np.linalg.svd(normal, full_matrices=False).U * np.geomspace(1, 1 / condition, side) @ noise[:side],
        "nearly repeated": normal[generator.integers(0, min(keys, 3), keys)] + noise / condition,
        "line at first": np.where(np.arange(keys)[:, None] < keys // 2, line, normal),
        "shifted": normal / condition + generator.normal(size=width),
        "one outlier": normal * np.where(np.arange(keys) == keys // 3, condition, 1)[:, None],
    }[shape]
    weights = oracles.softmax(2 * generator.normal(size=(keys, keys)), visible).astype(np.float64)
    return weights / weights.sum(-1, keepdims=True), values


@st.composite
def ill_conditioned(draw):
    """A head of any visibility and condition, in the form of arrays of float64 or float32."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    keys, width = draw(st.integers(2, 24)), draw(st.integers(1, 10))
    visible = oracles.masks(keys, keys, draw(st.sampled_from(oracles.KINDS)), generator)
    condition = 10 ** draw(st.floats(0, 14))
    weights, values = head(draw(st.sampled_from(SHAPES)), keys, width, condition, visible, generator)
    dtype = draw(st.sampled_from([np.float64, np.float32]))
    return weights.astype(dtype), values.astype(dtype), visible


def error(weights, values, effective):
    """‖A⊥V - AV‖ in units of 2·max(n, d_v)·eps·‖A‖·‖V‖, with products in extended precision."""
    moved = (np.asarray(effective, np.longdouble) - weights) @ values.astype(np.longdouble)
    sizes = [np.linalg.norm(array.astype(np.float64), 2) for array in (moved, weights, values)]
    return sizes[0] / (2 * max(values.shape) * np.finfo(values.dtype).eps * sizes[1] * sizes[2])


@given(ill_conditioned())
def test_the_output_is_kept_whatever_the_condition(case):
    weights, values, visible = case
    assert error(weights, values, effective_attention(weights, values, visible)) <= 1


@given(ill_conditioned())
def test_outputs_and_values_keep_the_output_too(case):
    weights, values, visible = case
    outputs = torch.from_numpy((weights.astype(np.float64) @ values).astype(values.dtype))
    factored = factor_outputs(outputs[None], torch.from_numpy(values)[None], Visibility.of(torch.from_numpy(visible)))
    dense = factored.matrices()[0]
    assert error(weights, values, dense.numpy()) <= 1
    queries = torch.arange(len(weights)).flip(0)
    for part in (
        factored.rows(0, queries),
        factored.restrict(queries).matrices()[0],
        factored.columns(0, queries).flip(1)[queries],
    ):
        torch.testing.assert_close(part, dense[queries], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(factored.column_means()[0], dense.double().mean(0), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(factored.row_sums()[0], dense.double().sum(-1), atol=1e-4, rtol=1e-4)
    size = dense.double().square().sum(-1)
    torch.testing.assert_close(factored.squared_norm[0], size, atol=1e-2, rtol=1e-2)


@pytest.mark.parametrize("noise", [1e-8, 1e-10, 1e-12])
@pytest.mark.parametrize("kind", ["full", "causal", "window", "random"])
def test_a_line_plus_noise_keeps_its_output_and_its_rank(noise, kind):
    generator = np.random.default_rng(0)
    visible = oracles.masks(16, 16, kind, generator)
    weights, values = head("line", 16, 8, 1 / noise, visible, generator)
    output = weights @ values
    moved = effective_attention(weights, values, visible) @ values - output
    assert np.linalg.norm(moved) <= 1e-14 * np.linalg.norm(output)
    if kind == "full":
        left, sigma, _ = np.linalg.svd(values, full_matrices=False)
        assert int(numerical_rank(values)) == (sigma > sigma[0] * 16 * np.finfo(float).eps).sum() == 8
        np.testing.assert_allclose(effective_attention(weights, values), weights @ left @ left.T, atol=16 * 2.3e-16 / noise)


@pytest.mark.parametrize("kind", ["full", "causal", "random"])
def test_leverage_of_ill_conditioned_values_is_that_of_their_svd(kind):
    generator = np.random.default_rng(1)
    visible = oracles.masks(12, 12, kind, generator)
    _, values = head("line", 12, 3, 1e6, visible, generator)
    found = leverage(values[None], Visibility.of(torch.from_numpy(visible)))[0]
    for key in range(12):
        seen = visible[visible[:, key].nonzero()[0][-1]]
        left = np.linalg.svd(values[seen], full_matrices=False).U
        assert float(found[key]) == pytest.approx((left[seen[:key].sum()] ** 2).sum(), abs=1e-8)


@pytest.mark.parametrize("kind", ["full", "causal", "window"])
def test_float32_values_in_a_float64_array_have_the_rank_of_float32(kind):
    """Values of rank 8 rounded to float32 have noise in the other directions, which is not rank."""
    generator = np.random.default_rng(2)
    visible = oracles.masks(40, 40, kind, generator)
    weights, _ = head("line", 40, 16, 1, visible, generator)
    values = (generator.normal(size=(40, 8)) @ generator.normal(size=(8, 16))).astype(np.float32)
    assert int(numerical_rank(values.astype(np.float64))) == int(numerical_rank(values)) == 8
    found = effective_attention(weights, values.astype(np.float64), visible)
    np.testing.assert_array_equal(found, effective_attention(weights, values, visible))
    np.testing.assert_allclose(found, oracles.effective(weights[None], values[None], visible)[0], atol=1e-6)
    assert int(numerical_rank(values * np.float64(1 / 3))) == 16


def test_the_digits_of_values_show_the_precision_that_produced_them():
    values = torch.randn(5, 3)
    assert precision_of(values.double() * 2.0**-500) == torch.float32
    assert precision_of(values.double() / 3) == torch.float64
    assert precision_of(values.bfloat16()) == torch.bfloat16
    assert precision_of(values.bfloat16().float()) == torch.float32
