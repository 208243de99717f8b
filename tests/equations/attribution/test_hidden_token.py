"""Contributions, their errors and the main contributor, against independent formulas and simulations."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from identiformer.equations.attribution.hidden_token import (
    contribution,
    contribution_by_distance,
    contribution_by_neighbors,
    contribution_error,
    contribution_interval,
    distribution_error,
    estimate_norms,
    main_contributor_certain,
    orthonormal_directions,
    undecided_sources,
)

SURE = torch.full((3,), torch.inf, dtype=torch.float64)
"""Degrees of freedom of known variances."""


def test_contributions_are_shares_of_norms():
    norms = np.random.default_rng(0).uniform(size=(3, 5, 5))
    shares = contribution(norms)
    for layer, target, source in itertools.product(range(3), range(5), range(5)):
        assert shares[layer, target, source] == pytest.approx(norms[layer, target, source] / sum(norms[layer, target]))


def test_directions_have_the_predicted_variance():
    width, directions = 12, 4
    jacobian = torch.from_numpy(np.random.default_rng(1).normal(size=(7, width)) * np.geomspace(1, 0.1, width))
    draws = torch.stack(
        [(orthonormal_directions(width, 0, directions, (seed,)) @ jacobian.mT).square().sum(-1).mean() for seed in range(4000)]
    )
    gram = jacobian.mT @ jacobian
    trace, squared = gram.trace(), gram.square().sum()
    variance = 2 * (width - directions) * (width * squared - trace**2) / (directions * (width - 1) * (width + 2))
    assert float(draws.mean()) == pytest.approx(float(trace), abs=4 * float((variance / len(draws)).sqrt()))
    assert float(draws.var()) == pytest.approx(float(variance), rel=0.1)


def test_directions_do_not_depend_on_how_many_are_drawn_at_once():
    whole = orthonormal_directions(20, 0, 20, (3, 5))
    parts = torch.cat(
        [
            orthonormal_directions(20, 0, 4, (3, 5)),
            orthonormal_directions(20, 4, 11, (3, 5)),
            orthonormal_directions(20, 11, 20, (3, 5)),
        ]
    )
    torch.testing.assert_close(whole, parts, rtol=0, atol=1e-12)
    torch.testing.assert_close(whole @ whole.mT, 20 * torch.eye(20, dtype=torch.float64))
    assert not torch.allclose(whole[:4], orthonormal_directions(20, 0, 4, (3, 6)))


def along_directions(jacobians: torch.Tensor, directions: int, seed: int) -> torch.Tensor:
    """‖Jr‖² (target direction source) along random directions of each source, for blocks (target source out in)."""
    width = jacobians.shape[-1]
    return torch.stack(
        [
            (orthonormal_directions(width, 0, directions, (seed, source)) @ jacobians[:, source].mT).square().sum(-1)
            for source in range(jacobians.shape[1])
        ],
        -1,
    )


def observed(jacobians: torch.Tensor, directions: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and spread over directions of ‖Jr‖²."""
    squared = along_directions(jacobians, directions, seed)
    return squared.mean(1), squared.var(1)


def blocks(seed: int, positions: int = 6, width: int = 24) -> torch.Tensor:
    rng = np.random.default_rng(seed)
    spectrum = np.geomspace(1, 0.05, width)
    scale = rng.uniform(0.2, 1, size=(positions, positions)) + 2 * np.eye(positions)
    turn = np.linalg.qr(rng.normal(size=(positions, positions, width, width))).Q
    return torch.from_numpy(rng.normal(size=(positions, positions, width, width)) * spectrum * scale[..., None, None] @ turn)


def estimated(jacobians: torch.Tensor, directions: int, seed: int):
    positions, width = jacobians.shape[0], jacobians.shape[-1]
    own = torch.eye(positions, dtype=torch.bool)
    return estimate_norms(*observed(jacobians, directions, seed), torch.full((positions,), directions), own, width)


def test_norms_from_all_directions_are_exact():
    jacobians = blocks(0)
    found = estimated(jacobians, 24, seed=1)
    torch.testing.assert_close(found.norm, jacobians.norm(dim=(-2, -1)))
    assert (found.variance == 0).all()


def test_norms_from_few_directions_are_unbiased_with_the_stated_error():
    jacobians = blocks(0)
    truth = jacobians.norm(dim=(-2, -1))
    found = [estimated(jacobians, 6, seed) for seed in range(1500)]
    relative = torch.stack([each.norm / truth - 1 for each in found])
    stated = torch.stack([each.variance for each in found]).mean(0)
    # Without its correction the mean would be off by half of the variance, here 0.4%.
    assert abs(float(relative.mean())) < 0.001
    own = torch.eye(6, dtype=torch.bool)
    for block in (own, ~own):
        assert float(relative.var(0)[block].mean()) == pytest.approx(float(stated[block].mean()), rel=0.1)


def uneven_blocks(positions: int, width: int) -> torch.Tensor:
    """Blocks whose spectra differ about as much as those of MiniLM; the spectra of own vectors are flatter."""
    rng = np.random.default_rng(2)
    steepest = np.where(np.eye(positions), 2, 5)
    smallest = 10.0 ** rng.uniform(-steepest, 0)
    spectrum = smallest[..., None] ** np.linspace(0, 1, width)
    turned = np.linalg.qr(rng.normal(size=(2, positions, positions, width, width))).Q
    scale = rng.uniform(0.2, 1, size=(positions, positions)) + 2 * np.eye(positions)
    return torch.from_numpy(scale[..., None, None] * turned[0] * spectrum[..., None, :] @ turned[1])


def test_intervals_have_their_coverage():
    """Over 2,400 independent draws: 400 for each of 6 sources."""
    jacobians = uneven_blocks(6, 32)
    truth, own = contribution(jacobians.norm(dim=(-2, -1))), torch.eye(6, dtype=torch.bool)
    covered: dict[int, list[torch.Tensor]] = {2: [], 4: [], 8: [], 16: []}
    for seed in range(400):
        squared = along_directions(jacobians, 16, seed)
        for directions, hits in covered.items():
            first, count = squared[:, :directions], torch.full((6,), directions)
            found = estimate_norms(first.mean(1), first.var(1), count, own, 32)
            low, high = contribution_interval(contribution(found.norm), found.variance, found.degrees)
            hits.append(((low <= truth) & (truth <= high)).double())
    for directions, hits in covered.items():
        share, slack = torch.stack(hits).mean(0), 0.02 if directions < 8 else 0.01
        for block in (own, ~own):
            assert float(share[block].mean()) == pytest.approx(0.95, abs=slack), (directions, share)


def test_errors_match_simulation():
    jacobians = blocks(2)
    truth = contribution(jacobians.norm(dim=(-2, -1)))
    missed, stated = [], []
    for seed in range(400):
        found = estimated(jacobians, 8, seed)
        shares = contribution(found.norm)
        missed.append((shares - truth).abs().sum(-1) / 2)
        stated.append(distribution_error(contribution_error(shares, found.variance)))
    assert float(torch.stack(missed).mean()) == pytest.approx(float(torch.stack(stated).mean()), rel=0.05)


def test_the_error_of_a_set_is_that_of_its_sum():
    rng = np.random.default_rng(3)
    norms, variance = rng.uniform(0.5, 2, size=(1, 5)), rng.uniform(0.5, 2, size=(1, 5)) * 1e-4
    members = np.array([[True, True, False, False, False], [False, True, False, True, True], [True] * 5])
    draws = norms * (1 + rng.normal(size=(200_000, 1, 5)) * np.sqrt(variance))
    sums = (draws / draws.sum(-1, keepdims=True)) @ members.T
    stated = contribution_error(norms / norms.sum(-1, keepdims=True), variance, members)
    np.testing.assert_allclose(stated[0, :2], sums.std(0)[0, :2], rtol=0.02)
    assert stated[0, 2] < 1e-9
    single = contribution_error(norms / norms.sum(-1, keepdims=True), variance, np.eye(5, dtype=bool))
    np.testing.assert_allclose(single, contribution_error(norms / norms.sum(-1, keepdims=True), variance))


def test_the_main_contributor_must_exceed_every_other_by_the_error():
    shares = torch.tensor([[0.5, 0.3, 0.2], [0.36, 0.34, 0.3], [0.36, 0.34, 0.3]], dtype=torch.float64)
    variance = torch.tensor([[1e-4] * 3, [1e-4, 1e-4, 1e-4], [0.0, 0.0, 0.0]], dtype=torch.float64)
    # log(36/34) = 0.057 against 1.96·√2e-4 = 0.028
    assert main_contributor_certain(shares, variance, SURE).tolist() == [True, True, True]
    assert main_contributor_certain(shares, 10 * variance, SURE).tolist() == [True, False, True]
    # Student's t of 4 degrees of freedom in all is 2.78: 0.057 against 2.78·√4.5e-4 = 0.059
    assert main_contributor_certain(shares, 2.25 * variance, SURE).tolist() == [True, True, True]
    assert main_contributor_certain(shares, 2.25 * variance, torch.full((3,), 2.0).double()).tolist() == [True, False, True]
    far = torch.tensor([[1e-6, 1e-6, 1.0]], dtype=torch.float64)  # the third is the uncertain one
    assert main_contributor_certain(shares[:1], far, SURE).tolist() == [False]
    alone = torch.ones(1, 1, dtype=torch.float64)
    assert main_contributor_certain(alone, alone, SURE[:1]).tolist() == [True]
    tied = torch.tensor([[0.5, 0.5]], dtype=torch.float64)
    assert main_contributor_certain(tied, torch.zeros_like(tied), SURE[:2]).tolist() == [False]


def test_undecided_sources_are_those_with_error_or_rivals():
    shares = torch.tensor([[0.9, 0.05, 0.05], [0.40, 0.39, 0.21]], dtype=torch.float64)
    known = torch.full_like(shares, 1e-8)
    assert undecided_sources(shares, known, SURE, 0.01).tolist() == [False, False, False]
    doubt = torch.tensor([[0.0, 0.0, 0.0], [1e-3, 1e-3, 1e-9]], dtype=torch.float64)
    assert undecided_sources(shares, doubt, SURE, 0.5).tolist() == [True, True, False]
    loud = torch.tensor([[1e-9, 0.5, 1e-9], [1e-9, 1e-9, 1e-9]], dtype=torch.float64)
    assert undecided_sources(shares, loud, SURE, 0.01).tolist() == [False, True, False]
    assert undecided_sources(shares, loud, SURE, 0.5).tolist() == [False, False, False]
    # Exact contributions need no more directions, even where two are equal.
    assert not undecided_sources(torch.tensor([[0.5, 0.5]]).double(), torch.zeros(1, 2).double(), SURE[:2], 0.01).any()


@settings(max_examples=50)
@given(seed=st.integers(0, 2**16), positions=st.integers(2, 16))
def test_contribution_by_distance_is_a_sum_over_pairs(seed, positions):
    rng = np.random.default_rng(seed)
    targets = np.sort(rng.choice(positions, size=rng.integers(1, positions + 1), replace=False))
    shares = rng.dirichlet(np.ones(positions), size=(2, len(targets)))
    found = contribution_by_distance(shares, targets)
    for layer in range(2):
        sums = dict.fromkeys(range(1 - positions, positions), 0.0)
        for row, target in enumerate(targets):
            for source in range(positions):
                if source != target:
                    sums[source - target] += shares[layer, row, source]
        np.testing.assert_allclose(found[layer], np.array(list(sums.values())) / sum(sums.values()))


def test_contribution_by_neighbors_is_a_mean_over_existing_neighbors():
    positions = 25
    shares = np.random.default_rng(0).dirichlet(np.ones(positions), size=(1, positions))
    found = contribution_by_neighbors(shares, np.arange(positions))
    bounds = [(1, 1), (2, 2), (3, 3), (4, 5), (6, 10), (11, 99)]
    for target in range(positions):
        for group, (low, high) in enumerate(bounds):
            own = [shares[0, target, source] for source in range(positions) if low <= abs(source - target) <= high]
            assert found[0, target, group] == pytest.approx(np.mean(own))
    short = contribution_by_neighbors(np.full((1, 2, 2), 0.5), np.arange(2))
    assert np.isnan(short[0, 0, 1:]).all()
    assert short[0, 0, 0] == 0.5
