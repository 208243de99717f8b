"""Errors of contributions whose sources share directions, against simulations."""

import numpy as np
import pytest
import torch

from identiformer.equations.attribution.hidden_token import contribution, distribution_error, orthonormal_directions
from identiformer.equations.attribution.shared_directions import shared_norms

WIDTH, DRAWS, BLOCK = 32, 2000, 8
SET = torch.tensor([[True, True, False, False, False, True]])


def jacobians(kind):
    """Blocks of six sources (source width input): independent, or mostly of one map as after attention."""
    generator = np.random.default_rng(3)
    normal = generator.normal(size=(6, WIDTH, 20)) * np.geomspace(1, 0.03, 20)
    if kind == "one map":
        normal = 0.1 * normal + generator.normal(size=(WIDTH, 20)) * np.geomspace(1, 0.03, 20)
    return torch.from_numpy(normal) * torch.tensor([3.0, 1, 1, 0.5, 0.1, 0])[:, None, None]


def estimate(blocks, directions, draws=DRAWS):
    """The norms and their errors, once per draw; of the last directions, products of each with itself alone."""
    frames = torch.stack([orthonormal_directions(WIDTH, 0, directions, (seed,)) for seed in range(draws)])
    pulled = torch.einsum("nkw,swi->nksi", frames, blocks)
    products = [torch.einsum("nksi,nlsi->nkls", part, part) for part in pulled[:, :16].split(BLOCK, 1)]
    if directions > 16:
        products.append(pulled[:, 16:].square().sum(-1)[:, :, None])
    squared = pulled.square().sum(-1).mean(1)
    return shared_norms(squared[:, None], [block[:, None] for block in products], WIDTH)


@pytest.mark.parametrize("kind", ["independent", "one map"])
@pytest.mark.parametrize("directions", [2, 4, 8, 16, 24])
def test_intervals_have_their_coverage(kind, directions):
    blocks = jacobians(kind)
    truth = contribution(torch.linalg.matrix_norm(blocks)[None])[0]
    found = estimate(blocks, directions)
    shares = contribution(found.norm)
    low, high = found.interval(shares)
    covered = ((low <= truth) & (truth <= high)).double().mean((0, 1))
    assert float(covered[:5].mean()) == pytest.approx(0.95, abs=0.02 if directions < 8 else 0.01)
    assert covered[:5].numpy() == pytest.approx(0.95, abs=0.03)
    assert truth[5] == shares[..., 5].max() == high[..., 5].max() == 0


@pytest.mark.parametrize("kind", ["independent", "one map"])
def test_errors_are_those_of_draws(kind):
    blocks = jacobians(kind)
    truth = contribution(torch.linalg.matrix_norm(blocks)[None])[0]
    found = estimate(blocks, 8)
    shares = contribution(found.norm)
    spread = (shares - truth).square().mean((0, 1)).sqrt()
    torch.testing.assert_close(found.error(shares).square().mean((0, 1)).sqrt(), spread, rtol=0.1, atol=1e-9)
    missed = ((shares - truth) @ SET[0].double()).square().mean().sqrt()
    torch.testing.assert_close(found.error(shares, SET).square().mean().sqrt(), missed, rtol=0.1, atol=0)
    variation = 0.5 * (shares - truth).abs().sum(-1).mean()
    torch.testing.assert_close(distribution_error(found.error(shares)).mean(), variation, rtol=0.1, atol=0)


def test_the_main_contributor_is_certain_only_if_it_is_the_largest():
    blocks = jacobians("one map")
    blocks[0] *= 1.01 / 3  # next to 1 and 1
    found = estimate(blocks, 4)
    shares = contribution(found.norm)
    certain, largest = found.main_contributor_certain(shares), torch.linalg.matrix_norm(blocks).argmax()
    assert 0 < float(certain.double().mean()) < 1
    assert float((certain & (shares.argmax(-1) != largest)).double().mean()) < 0.05
    assert found.undecided(shares, 0.5).all()
    found = estimate(jacobians("one map"), 4)
    assert found.main_contributor_certain(contribution(found.norm)).double().mean() > 0.99


def test_as_many_directions_as_the_width_leave_no_error():
    blocks = jacobians("one map")
    blocks[1] = blocks[0]  # two largest
    found = estimate(blocks, WIDTH, draws=3)
    torch.testing.assert_close(found.norm, torch.linalg.matrix_norm(blocks).expand(3, 1, -1))
    shares = contribution(found.norm)
    assert found.error(shares).max() == 0
    assert not found.undecided(shares, 1e-6).any()
