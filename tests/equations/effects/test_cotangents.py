"""Random cotangents against the changes that they estimate: exact divergences and cosines."""

import pytest
import torch

from identiformer.equations.effects.cotangents import direction_cotangents, divergence, fisher_cotangents


def test_fisher_cotangents_estimate_the_divergence_of_small_changes():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(20, generator=generator, dtype=torch.float64) * 2
    change = torch.randn(20, generator=generator, dtype=torch.float64) * 1e-3
    draws = fisher_cotangents(logits.log_softmax(-1).expand(200_000, 20), generator)
    before, after = logits.log_softmax(-1), (logits + change).log_softmax(-1)
    exact = (before.exp() * (before - after)).sum()
    estimates = (draws @ change).square() / 2
    error = estimates.std() / len(estimates) ** 0.5
    assert abs(estimates.mean() - exact) < 4 * error
    assert error < 0.01 * exact


def test_all_directions_together_are_the_cosine_of_small_changes():
    generator = torch.Generator().manual_seed(1)
    vectors = torch.randn(3, 9, generator=generator, dtype=torch.float64)
    change = torch.randn(3, 9, generator=generator, dtype=torch.float64) * 1e-5
    draws = direction_cotangents(vectors, 8, generator)
    torch.testing.assert_close((draws * vectors).sum(-1), torch.zeros(8, 3, dtype=torch.float64), atol=1e-12, rtol=0)
    estimate = (draws * change).sum(-1).square().mean(0) / 2
    exact = 1 - torch.nn.functional.cosine_similarity(vectors, vectors + change, dim=-1)
    torch.testing.assert_close(estimate, exact, rtol=1e-4, atol=1e-15)


@pytest.mark.parametrize("size", [1e-3, 0.05, 0.5, 5.0])
@pytest.mark.parametrize("shift", [0.0, 3.0])
def test_divergence_is_that_of_torch(size, shift):
    generator = torch.Generator().manual_seed(2)
    logits = torch.randn(4, 500, generator=generator, dtype=torch.float64) * 3
    changed = logits + size * torch.randn(2, 4, 500, generator=generator, dtype=torch.float64) + shift
    exact = torch.nn.functional.kl_div(changed.log_softmax(-1), logits.log_softmax(-1), log_target=True, reduction="none")
    torch.testing.assert_close(divergence(logits[None], changed), exact.sum(-1), rtol=1e-6, atol=1e-14)
    single = divergence(logits[None].float(), changed.float()).double()
    torch.testing.assert_close(single, exact.sum(-1), rtol=3e-3, atol=1e-9)


def test_no_change_is_no_divergence():
    logits = torch.randn(2, 50_000) * 10
    assert divergence(logits[None], logits[None]).abs().max() == 0
