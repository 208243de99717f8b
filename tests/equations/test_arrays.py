"""Values of any magnitude: results that do not depend on it keep their bits, others scale with it."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from identiformer import equations
from identiformer.equations import Visibility
from identiformer.equations.attention.heads import full_row_rank
from identiformer.equations.attribution.agreement import cosine_distance, row_correlation
from identiformer.errors import InputError

EXPONENTS = (-1040, -1000, -664, -500, -201, 201, 500, 664, 1000, 1020)


def make_head(keys, width, seed, visible=None):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(2, keys, keys, generator=generator, dtype=torch.float64)
    if visible is not None:
        scores.masked_fill_(~visible.dense(), -torch.inf)
    return scores.softmax(-1), torch.randn(1, keys, width, generator=generator, dtype=torch.float64)


def times(numbers, exponent):
    """numbers · 2^exponent, by way of NumPy."""
    return torch.from_numpy(np.ldexp(numbers.numpy(), exponent))


def visibility(kind, keys):
    if kind == "mask":
        return Visibility.of(torch.eye(keys, dtype=torch.bool) | (torch.arange(keys) % 3 == 0))
    return {"full": Visibility.full(keys, keys), "causal": Visibility.causal(keys), "window": Visibility.window(keys, 3)}[kind]


@given(
    decimal=st.floats(-300, 300),
    keys=st.integers(2, 12),
    width=st.integers(1, 6),
    kind=st.sampled_from(["full", "causal", "window", "mask"]),
    seed=st.integers(0, 2**16),
)
def test_effective_attention_preserves_the_output_for_values_of_any_magnitude(decimal, keys, width, kind, seed):
    visible = visibility(kind, keys)
    weights, values = make_head(keys, width, seed, visible)
    scaled = values * 10.0**decimal
    effective = equations.effective_attention(weights, scaled, visible)
    size = scaled.abs().max()
    assert float(((effective - weights) @ (scaled / size)).abs().max()) < 1e-9
    null = equations.null_attention(weights, scaled, visible)
    assert float(torch.linalg.vecdot(null, effective).abs().max()) < 1e-9
    torch.testing.assert_close(effective, equations.effective_attention(weights, values, visible), rtol=0, atol=1e-8)


@pytest.mark.parametrize("exponent", EXPONENTS)
@pytest.mark.parametrize("kind", ["full", "causal", "window", "mask"])
def test_powers_of_two_change_no_bit(exponent, kind):
    visible = visibility(kind, 9)
    weights, values = make_head(9, 4, 0, visible)
    values = values.float().double()  # so that subnormal numbers lose no bits
    scaled = times(values, exponent)
    for name in ("effective_attention", "sum_preserving_attention", "soft_attention", "maximum_entropy_attention"):
        equation = getattr(equations, name)
        assert torch.equal(equation(weights, scaled, visible), equation(weights, values, visible)), name
    assert torch.equal(equations.leverage(scaled, visible), equations.leverage(values, visible))
    factored, ours = (equations.factor_outputs(weights @ each, each, visible) for each in (values, scaled))
    assert torch.equal(ours.rank, factored.rank)
    np.testing.assert_allclose(ours.matrices(), factored.matrices(), atol=1e-12)
    np.testing.assert_allclose(times(ours.smallest, -exponent), factored.smallest, rtol=1e-9)


@pytest.mark.parametrize("exponent", EXPONENTS)
def test_ranks_spectra_and_intervals_for_values_of_any_magnitude(exponent):
    weights, values = make_head(6, 3, 1)
    values, keys = values.float().double(), torch.randn(6, 3).double()
    scaled = times(values, exponent)
    assert equations.numerical_rank(scaled).tolist() == [3]
    np.testing.assert_allclose(times(equations.singular_values(scaled), -exponent), equations.singular_values(values), rtol=1e-9)
    assert torch.equal(equations.left_null_space(scaled[0]), equations.left_null_space(values[0]))
    for tolerance in (0.0, 1e-4):
        ours, theirs = (
            equations.weight_intervals(weights[0], each[0], tolerance=tolerance, projection=each[0, :3].mT)
            for each in (scaled, values)
        )
        assert torch.equal(ours.low, theirs.low)
        assert torch.equal(ours.high, theirs.high)
    small, plain = (equations.key_constrained(weights[0], keys, each[0], 0.5) for each in (scaled, values))
    assert torch.equal(small.identifiable, plain.identifiable)
    np.testing.assert_allclose(small.condition, plain.condition, rtol=1e-9)
    np.testing.assert_allclose(times(small.smallest, -exponent), plain.smallest, rtol=1e-7)  # subnormal ones are rounded
    assert torch.equal(equations.layer_nullity(scaled, scaled.mT), equations.layer_nullity(values, values.mT))
    assert torch.equal(full_row_rank(scaled.mT), full_row_rank(values.mT))
    visible = torch.ones(6, 3, dtype=torch.bool)
    ours, plain = (row_correlation(each[0], values[0] ** 2, visible) for each in (scaled, values))
    np.testing.assert_allclose(ours, plain)
    np.testing.assert_allclose(cosine_distance(scaled[0], values[0]), 0, atol=1e-15)


def test_values_of_very_different_magnitude():
    """Where all queries see all keys the small ones are noise; a query that sees only small ones is rejected."""
    weights, values = make_head(5, 2, 2, Visibility.causal(5))
    values[0, 0] *= 1e-200
    effective = equations.effective_attention(weights[:, -1:], values)
    torch.testing.assert_close(effective @ values, weights[:, -1:] @ values, rtol=0, atol=1e-12)
    with pytest.raises(InputError, match="comparable size where queries see different keys, got the largest of key 0"):
        equations.effective_attention(weights, values, Visibility.causal(5))
    values[0, 0] = 0
    equations.effective_attention(weights, values, Visibility.causal(5))


def test_large_values_are_accepted_and_infinite_ones_rejected():
    weights = torch.full((1, 4), 0.25, dtype=torch.float64)
    equations.effective_attention(weights, torch.full((4, 2), 1.7e308, dtype=torch.float64))
    for wrong in (torch.inf, -torch.inf, torch.nan):
        with pytest.raises(InputError, match="expected finite values"):
            equations.effective_attention(weights, torch.full((4, 2), wrong, dtype=torch.float64))
