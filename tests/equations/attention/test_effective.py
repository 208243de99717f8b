"""Effective attention against scipy's null space, a plain SVD of T, and the identities of the paper."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from identiformer.equations import effective_attention, left_null_space, null_attention, numerical_rank
from identiformer.errors import InputError
from tests.equations import oracles


@given(oracles.attentions())
def test_matches_the_definition_for_every_visibility_and_rank(case):
    weights, values, visible = case
    if oracles.has_clear_rank(values, visible):
        np.testing.assert_allclose(effective_attention(weights, values, visible), oracles.effective(*case), atol=2e-5)


@given(oracles.attentions())
def test_identities(case):
    """A⊥V = AV, A∥V = 0, ⟨a∥, a⊥⟩ = 0, nothing on invisible keys: for any rank, mask and grouping."""
    weights, values, visible = case
    raw = weights.astype(np.float64)
    effective, null = (
        function(weights, values, visible).astype(np.float64) for function in (effective_attention, null_attention)
    )
    repeated = np.repeat(values, len(weights) // len(values), 0).astype(np.float64)
    top = np.linalg.norm(repeated, ord=2, axis=(1, 2))[:, None]
    length = np.linalg.norm(raw, axis=-1)
    assert (np.linalg.norm((effective - raw) @ repeated, axis=-1) <= 1e-4 * length * top).all()
    assert (np.linalg.norm(null @ repeated, axis=-1) <= 1e-4 * length * top).all()
    assert (np.abs((effective * null).sum(-1)) <= 1e-6 * length**2).all()
    assert not effective[:, ~visible].any()
    assert not null[:, ~visible].any()


@given(oracles.attentions())
def test_rows_with_full_row_rank_are_unchanged(case):
    weights, values, visible = case
    effective = effective_attention(weights, values, visible)
    for head in range(len(weights)):
        own = values[head * len(values) // len(weights)]
        for row, seen in enumerate(visible):
            ratio = np.linalg.svd(own[seen].astype(np.float64), compute_uv=False)
            if seen.sum() <= own.shape[1] and ratio[-1] > 1e-3 * ratio[0]:
                np.testing.assert_array_equal(effective[head, row], weights[head, row])


@given(oracles.attentions(), st.integers(1, 5))
def test_padding_changes_nothing(case, padding):
    weights, values, visible = case
    padded = effective_attention(
        np.pad(weights, ((0, 0), (0, 0), (0, padding))),
        np.pad(values, ((0, 0), (0, padding), (0, 0)), constant_values=7.0),
        np.pad(visible, ((0, 0), (0, padding))),
    )
    np.testing.assert_allclose(padded[..., :-padding], effective_attention(weights, values, visible), atol=1e-5)
    assert not padded[..., -padding:].any()


@pytest.mark.parametrize("keys", [20, 64, 100, 300])
def test_equals_a_full_svd_of_t(keys):
    generator = np.random.default_rng(keys)
    values = generator.normal(size=(3, keys, 64)).astype(np.float32)
    projection = generator.normal(size=(3, 64, 768)).astype(np.float32)
    weights = oracles.softmax(generator.normal(size=(3, keys, keys)) * 2, np.ones((keys, keys), bool))
    effective = effective_attention(weights, values)
    for a, v, h, ours in zip(weights, values, projection, effective, strict=True):
        left, sigma, _ = np.linalg.svd((v @ h).astype(np.float32))
        rank = int((sigma > sigma[0] * 768 * oracles.EPS32).sum())
        assert rank == min(keys, 64)
        null = left[:, rank:]
        np.testing.assert_allclose(ours, a - (a @ null) @ null.T, atol=1e-5)


def test_long_causal_prefixes_match_row_by_row_projections():
    """Many blocks, a run of repeated keys, a late direction: every strategy of the prefix solver."""
    generator = np.random.default_rng(3)
    values = generator.normal(size=(2, 400, 16)).astype(np.float32)
    values[0, 30:200] = values[0, generator.integers(0, 5, 170)]
    values[1, :250, 7:] = 0
    visible = np.tri(400, dtype=bool)
    weights = oracles.softmax(generator.normal(size=(4, 400, 400)) * 2, visible)
    effective = effective_attention(weights, values, visible)
    np.testing.assert_allclose(effective, oracles.effective(weights, values, visible), atol=5e-6)


def test_the_example_of_appendix_a1():
    """One observation y = x₁β₁ + x₂β₂ does not identify β; as many independent observations as unknowns do."""
    assert left_null_space(torch.tensor([[1.0], [2.0]])).shape == (2, 1)
    assert left_null_space(torch.tensor([[1.0, 0.0], [2.0, 1.0]])).shape == (2, 0)


@pytest.mark.parametrize(("keys", "nullity"), [(512, 448), (1000, 936)])
def test_the_papers_settings(keys, nullity):
    values = torch.randn(keys, 64)
    assert keys - int(numerical_rank(values)) == nullity
    assert keys + 0 - int(numerical_rank(torch.cat([values, torch.ones(keys, 1)], 1))) == nullity - 1


def test_grouped_heads_share_their_values():
    weights, values = torch.randn(6, 9, 9).softmax(-1), torch.randn(2, 9, 4)
    repeated = effective_attention(weights, values.repeat_interleave(3, 0))
    torch.testing.assert_close(effective_attention(weights, values), repeated, atol=1e-6, rtol=0)


def test_a_learned_sink_takes_its_share():
    weights = torch.randn(2, 9, 10).softmax(-1)[..., :9]
    values = torch.randn(2, 9, 4)
    with pytest.raises(InputError, match="sum to one"):
        effective_attention(weights, values)
    extended = effective_attention(
        torch.cat([weights, 1 - weights.sum(-1, keepdim=True)], -1), torch.nn.functional.pad(values, (0, 0, 0, 1))
    )
    torch.testing.assert_close(effective_attention(weights, values, sink=True), extended[..., :9], atol=1e-6, rtol=0)
    assert extended[..., 9].abs().max() < 1e-7


def test_the_value_bias_changes_effective_attention_but_not_its_rank_bound():
    weights, values = torch.randn(1, 40, 40).softmax(-1), torch.randn(1, 40, 8)
    shifted = effective_attention(weights, values + 3 * torch.randn(1, 1, 8))
    assert (shifted - effective_attention(weights, values)).abs().max() > 1e-3


def test_numpy_in_numpy_out_and_one_head_alone():
    weights, values = torch.randn(1, 7, 7).softmax(-1), torch.randn(1, 7, 3)
    several = effective_attention(weights, values)
    alone = effective_attention(weights[0].numpy(), values[0].numpy())
    assert isinstance(alone, np.ndarray)
    np.testing.assert_array_equal(alone, several[0].numpy())


def test_precision_sets_the_rank_threshold():
    """Values of rank 8 rounded to float32 and processed in float64 since have full rank without precision=."""
    values = (torch.randn(60, 8) @ torch.randn(8, 16)).double() / 3
    weights = torch.randn(1, 60, 60).double().softmax(-1)
    assert int(numerical_rank(values)) == 16
    assert int(numerical_rank(values, torch.float32)) == 8
    float32 = effective_attention(weights, values[None], precision=torch.float32)
    torch.testing.assert_close(float32.float(), effective_attention(weights.float(), values[None].float()), atol=1e-5, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_values(dtype):
    values = torch.randn(2, 60, 16)
    weights = torch.randn(2, 60, 60).softmax(-1)
    rounded = effective_attention(weights.to(dtype), values.to(dtype))
    assert rounded.dtype == dtype
    assert numerical_rank(values.to(dtype)).tolist() == [16, 16]
    torch.testing.assert_close(rounded.float(), effective_attention(weights, values), atol=0.05, rtol=0)


@pytest.mark.parametrize(
    ("weights", "values", "visible", "message"),
    [
        ((2, 5, 6), (2, 7, 3), None, r"\(2, 5, 6\) and \(2, 7, 3\)"),
        ((3, 5, 6), (2, 6, 3), None, "multiple"),
        ((2, 0, 6), (2, 6, 3), None, "expected weights"),
        ((2, 5, 6), (2, 6, 3), torch.ones(6, 5, dtype=torch.bool), r"mask of shape \(5, 6\)"),
        ((2, 5, 6), (2, 6, 3), torch.zeros(5, 6, dtype=torch.bool), "hides every key of row 0"),
        ((2, 6, 6), (2, 6, 3), torch.eye(6, dtype=torch.bool), "cannot see"),
    ],
)
def test_mismatched_arrays_are_rejected(weights, values, visible, message):
    with pytest.raises(InputError, match=message):
        effective_attention(torch.full(weights, 1 / weights[-1]), torch.randn(values), visible)


@pytest.mark.parametrize("where", ["weights", "values"])
@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_nan_and_infinity_are_rejected(where, wrong):
    weights, values = torch.full((1, 6, 6), 1 / 6), torch.randn(1, 6, 3)
    (weights if where == "weights" else values)[0, 2, 1] = wrong
    with pytest.raises(InputError, match="finite"):
        effective_attention(weights, values)


def test_rows_without_a_null_space_equal_the_weights_bitwise():
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(2, 6, 6, generator=generator, dtype=torch.float64).softmax(-1)
    values = torch.randn(2, 6, 8, generator=generator, dtype=torch.float64)
    torch.testing.assert_close(effective_attention(weights, values), weights, atol=0, rtol=0)
    causal = torch.randn(1, 9, 9, generator=generator, dtype=torch.float64).exp().tril()
    causal /= causal.sum(-1, keepdim=True)
    found = effective_attention(
        causal, torch.randn(1, 9, 4, generator=generator, dtype=torch.float64), torch.ones(9, 9).tril().bool()
    )
    torch.testing.assert_close(found[:, :4], causal[:, :4], atol=0, rtol=0)
    assert not torch.equal(found[:, 4:], causal[:, 4:])
