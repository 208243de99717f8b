"""Rank and null space against NumPy and SciPy."""

import numpy as np
import pytest
import scipy.linalg
import torch
from hypothesis import given
from hypothesis import strategies as st

from identiformer.equations import left_null_space, numerical_rank, singular_values

EPS32 = np.finfo(np.float32).eps


@given(st.integers(1, 40), st.integers(1, 20), st.integers(1, 20), st.integers(0, 1000))
def test_rank_matches_numpy(keys, width, rank, seed):
    generator = np.random.default_rng(seed)
    values = (generator.normal(size=(keys, rank)) @ generator.normal(size=(rank, width))).astype(np.float32)
    sigma = np.linalg.svd(values.astype(np.float64), compute_uv=False)
    ratio = sigma / sigma[0] / (max(values.shape) * EPS32)
    if not ((ratio > 0.02) & (ratio < 500)).any():
        assert numerical_rank(values) == np.linalg.matrix_rank(values.astype(np.float64), rtol=max(values.shape) * EPS32)


@given(st.integers(1, 30), st.integers(1, 12), st.integers(1, 12), st.integers(0, 1000))
def test_null_space_matches_scipy(keys, width, rank, seed):
    generator = np.random.default_rng(seed)
    values = generator.normal(size=(keys, rank)) @ generator.normal(size=(rank, width))
    ours, theirs = left_null_space(values), scipy.linalg.null_space(values.T)
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours @ ours.T, theirs @ theirs.T, atol=1e-7)


def test_a_float32_t_needs_the_threshold_of_float32():
    """T = VH formed in float32 has rank 128 by float64's threshold and 64 by float32's, which its digits show."""
    t = (torch.randn(128, 64) @ torch.randn(64, 768)).double()
    assert int(numerical_rank(t, torch.float32)) == 64
    assert int(numerical_rank(t)) == 64
    assert int(numerical_rank(t + 1e-12)) == 128


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_noise_is_not_rank(dtype):
    t = torch.randn(128, 64) @ torch.randn(64, 768)
    assert int(numerical_rank(t.to(dtype))) == 64


def test_singular_values_match_numpy():
    values = np.random.default_rng(0).normal(size=(3, 20, 7))
    np.testing.assert_allclose(singular_values(values), np.linalg.svd(values, compute_uv=False), rtol=1e-6)
    np.testing.assert_allclose(singular_values(values.transpose(0, 2, 1)), np.linalg.svd(values, compute_uv=False), rtol=1e-6)
