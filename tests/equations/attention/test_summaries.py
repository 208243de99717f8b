"""Summaries of attention against their definitions."""

import numpy as np
import pytest
import torch
from hypothesis import given

from identiformer.equations import Visibility, leverage, null_mass
from identiformer.equations.attention.heads import per_head
from identiformer.equations.attention.summaries import attention_squared_norms, correlation
from tests.equations import oracles
from tests.equations.attention.cases import factored_case


def test_leverages_of_all_keys_sum_to_the_rank():
    values = torch.randn(2, 50, 8)
    torch.testing.assert_close(leverage(values).sum(-1), torch.tensor([8.0, 8.0], dtype=torch.float64))


@given(oracles.attentions())
def test_null_mass_and_correlation_from_norms_and_sums(case):
    factored, visible = factored_case(case), torch.from_numpy(case[2])
    if not oracles.has_clear_rank(case[1], case[2]):
        return
    raw, effective = case[0].astype(np.float64), oracles.effective(*case)
    nullity = per_head(factored.nullity, factored.heads)
    raw_norm = torch.from_numpy(raw).square().sum(-1)
    mass = null_mass(raw_norm, factored.squared_norm)
    np.testing.assert_allclose(mass, ((raw - effective) ** 2).sum(-1) / (raw**2).sum(-1), atol=2e-5)
    ours = correlation(
        raw_norm, factored.squared_norm, torch.from_numpy(raw).sum(-1), factored.row_sums(), nullity, visible.sum(-1)
    )
    for head, value in enumerate(ours.tolist()):
        entries = case[2] & (nullity[head] > 0).numpy()[:, None]
        if not entries.any():
            assert value == 1
        elif raw[head][entries].std() > 0.02 * raw[head][entries].mean() and effective[head][entries].std() > 1e-2:
            assert value == pytest.approx(np.corrcoef(raw[head][entries], effective[head][entries])[0, 1], abs=2e-3)


@pytest.mark.parametrize("visible", [Visibility.full(70, 70), Visibility.causal(700), Visibility.window(700, 90)])
def test_squared_norms_are_streamed_from_queries_and_keys(visible):
    queries, keys = torch.randn(4, visible.queries, 8), torch.randn(2, visible.keys, 8)
    scores = (queries @ keys.repeat_interleave(2, 0).mT).masked_fill(~visible.dense(), -torch.inf)
    expected = (scores.double() * 0.35).softmax(-1).square().sum(-1)
    torch.testing.assert_close(attention_squared_norms(queries, keys, 0.35, visible), expected, atol=1e-6, rtol=1e-5)
