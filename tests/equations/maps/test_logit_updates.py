"""Updates of a logit, traced to tokens, against sums over paths."""

import itertools

import torch

from identiformer.equations.maps.rollout import logit_updates, traced_updates


def test_updates_sum_to_what_attention_adds():
    weights, transformed, readout = torch.rand(2, 5), torch.randn(2, 5, 3), torch.randn(3)
    written = torch.einsum("hk,hkm->m", weights.double(), transformed.double())
    torch.testing.assert_close(logit_updates(weights, transformed, readout).sum(), written @ readout.double())


def test_updates_are_traced_along_all_paths():
    updates = torch.randn(3, 4, dtype=torch.float64)
    contributions = torch.rand(3, 4, 4, dtype=torch.float64)
    contributions /= contributions.sum(-1, keepdim=True)
    expected = updates[0].clone()
    for middle, source in itertools.product(range(4), repeat=2):
        expected[source] += updates[1, middle] * contributions[0, middle, source]
    for last, middle, source in itertools.product(range(4), repeat=3):
        expected[source] += updates[2, last] * contributions[1, last, middle] * contributions[0, middle, source]
    traced = traced_updates(updates, contributions)
    torch.testing.assert_close(traced, expected)
    torch.testing.assert_close(traced.sum(), updates.sum())
