"""The factored form against the dense one."""

import numpy as np
import pytest
import torch
from hypothesis import given

from identiformer.equations import (
    Visibility,
    effective_attention,
    factor_outputs,
    factor_weights,
)
from identiformer.errors import InputError
from tests.equations import oracles
from tests.equations.attention.cases import factored_case


@given(oracles.attentions())
def test_outputs_and_values_suffice(case):
    factored = factored_case(case)
    if not oracles.has_clear_rank(case[1], case[2]):
        return
    expected = torch.from_numpy(oracles.effective(*case)).float()
    torch.testing.assert_close(factored.matrices().float(), expected, atol=2e-5, rtol=0)
    for group, own in enumerate(case[1]):
        np.testing.assert_array_equal(factored.rank[group], oracles.rank_of_rows(own, case[2]))
    torch.testing.assert_close(factored.squared_norm.float(), expected.square().sum(-1), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(factored.column_means().float(), expected.mean(1), atol=1e-5, rtol=0)
    torch.testing.assert_close(factored.row_sums().float(), expected.sum(-1), atol=5e-5, rtol=1e-4)


@given(oracles.attentions())
def test_rows_and_columns_match_the_matrix(case):
    factored = factored_case(case)
    dense = factored.matrices()
    head = len(dense) - 1
    queries, keys = [0, dense.shape[1] - 1], [dense.shape[2] - 1, 0]
    torch.testing.assert_close(factored.rows(head, queries), dense[head, queries], atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(factored.columns(head, keys), dense[head][:, keys], atol=1e-6, rtol=1e-5)
    part = factored.restrict(torch.tensor(queries))
    torch.testing.assert_close(part.matrices(), dense[:, queries], atol=1e-6, rtol=1e-5)


@given(oracles.attentions())
def test_leverage_is_the_effective_weight_of_a_unit_weight(case):
    factored = factored_case(case)
    if not oracles.has_clear_rank(case[1], case[2]):
        return
    for group, own in enumerate(case[1]):
        for key in range(own.shape[0]):
            viewers = case[2][:, key].nonzero()[0]
            if not len(viewers):
                assert factored.leverage[group, key] == 0
                continue
            unit = np.eye(own.shape[0])[key]
            expected = oracles.effective_row(unit, own, case[2][viewers[-1]])[key]
            assert float(factored.leverage[group, key]) == pytest.approx(expected, abs=1e-5)


def test_the_error_bound_holds_for_rounded_outputs():
    values = (torch.randn(2, 120, 16) * torch.logspace(0, -4, 16)) @ torch.linalg.qr(torch.randn(16, 16)).Q
    weights = torch.randn(2, 120, 120).softmax(-1)
    exact = weights.double() @ values.double()
    rounded = exact.float()
    reference, from_rounded = (factor_outputs(outputs, values) for outputs in (exact, rounded))
    error = (reference.matrices().double() - from_rounded.matrices().double()).norm(dim=-1)
    bound = from_rounded.output_error(rounded.norm(dim=-1), torch.float32) * reference.squared_norm.sqrt()
    assert (error <= bound + 1e-6).all()
    assert error.max() > bound.max() / 1000, "the bound should not be far too loose"


def test_weights_and_outputs_give_the_same_factors():
    weights, values = torch.randn(4, 30, 30).softmax(-1), torch.randn(2, 30, 8)
    visible = Visibility.full(30, 30)
    outputs = weights.double() @ values.double().repeat_interleave(2, 0)
    first, second = factor_weights(weights, values, visible), factor_outputs(outputs, values, visible)
    torch.testing.assert_close(first.matrices(), second.matrices().float(), atol=1e-6, rtol=0)
    torch.testing.assert_close(first.matrices(), effective_attention(weights, values), atol=1e-6, rtol=0)


def test_indices_out_of_range_are_rejected():
    factored = factor_outputs(torch.randn(2, 5, 3), torch.randn(2, 5, 3))
    for call in (lambda: factored.rows(2, [0]), lambda: factored.rows(0, [5]), lambda: factored.columns(0, [-1])):
        with pytest.raises(InputError, match="expected"):
            call()
    with pytest.raises(InputError, match="multiple"):
        factor_outputs(torch.randn(3, 5, 3), torch.randn(2, 5, 3))


@pytest.mark.parametrize(
    "visible", [Visibility.causal(150), Visibility.window(150, 20), Visibility.of(torch.ones(150, 150).tril().bool().flip(0, 1))]
)
@pytest.mark.parametrize("last", [1.0, 1e-7])  # of the last direction of values, next to the others
def test_long_rows_match_the_pseudoinverse_of_the_keys_they_see(visible, last):
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(2, 150, 3, generator=generator, dtype=torch.float64) * torch.tensor([1.0, 1.0, last])
    weights = (
        torch.randn(4, 150, 150, generator=generator, dtype=torch.float64).masked_fill(~visible.dense(), -torch.inf).softmax(-1)
    )
    effective = factor_weights(weights, values, visible).matrices()
    for query in (2, 5, 127, 128, 149):
        seen = visible.dense()[query]
        for head in range(4):
            own = values[head // 2, seen].numpy()
            expected = weights[head, query, seen].numpy() @ own @ np.linalg.pinv(own)
            np.testing.assert_allclose(effective[head, query, seen].numpy(), expected, atol=1e-8)
