"""Nearest neighbors within an example and in a vocabulary, against plain loops."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from identiformer.equations.identifiability.recovery import TIE, recover_from_vocabulary, recover_tokens
from identiformer.errors import InputError


def distance(one, other, metric):
    if metric == "l2":
        return float(np.sum((one - other) ** 2))
    lengths = np.linalg.norm(one) * np.linalg.norm(other)
    return 1 - float(one @ other) / lengths if lengths else 1.0


def by_loops(predicted, candidates, target, starts, metric, ids):
    strict, lenient, tied = [], [], []
    for vector, own in zip(predicted, target, strict=True):
        example = max(number for number, start in enumerate(starts[:-1]) if start <= own)
        tokens = range(starts[example], starts[example + 1])
        distances = {token: distance(vector, candidates[token], metric) for token in tokens}
        best = min(distances.values())
        nearest = [token for token, value in distances.items() if value <= best + 1e-9]
        tied.append(len(nearest) > 1)
        strict.append(nearest == [own])
        lenient.append(all(ids[token] == ids[own] for token in nearest))
    return strict, lenient, tied


@given(
    seed=st.integers(0, 10_000),
    metric=st.sampled_from(["cosine", "l2"]),
    lengths=st.lists(st.integers(1, 7), min_size=1, max_size=6),
)
def test_hits_match_a_plain_loop(seed, metric, lengths):
    rng = np.random.default_rng(seed)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    ids = rng.integers(0, 4, starts[-1])
    candidates = rng.integers(-2, 3, (starts[-1], 3)).astype(float)  # small numbers: duplicates and ties are common
    kept = np.flatnonzero(rng.random(starts[-1]) < 0.8)
    target = np.array(
        [rng.integers(*starts[np.searchsorted(starts, token, "right") - 1 :][:2]) for token in kept], dtype=np.int64
    )
    predicted = candidates[target] + rng.integers(-1, 2, (len(kept), 3)) * 0.5
    found = recover_tokens(predicted, candidates, target, starts, metric, ids)
    expected = by_loops(predicted, candidates, target, starts, metric, ids)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.tolist() == theirs


def test_a_tie_is_a_miss_but_may_be_a_lenient_hit():
    candidates = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    arguments = (candidates, candidates, torch.arange(3), torch.tensor([0, 3]))
    found = recover_tokens(*arguments, "cosine", torch.tensor([7, 7, 8]))
    assert found.strict.tolist() == [False, False, True]
    assert found.lenient.tolist() == [True, True, True]
    assert found.tied.tolist() == [True, True, False]
    assert recover_tokens(*arguments, "cosine", torch.tensor([7, 9, 8])).lenient.tolist() == [False, False, True]


def test_duplicates_tie_despite_rounding():
    torch.manual_seed(3)
    candidates = torch.randn(40, 384).repeat(2, 1) * 30
    for metric in ("cosine", "l2"):
        found = recover_tokens(candidates @ torch.eye(384), candidates, torch.arange(80), torch.tensor([0, 80]), metric)
        assert not found.strict.any()
        assert found.tied.all()


def test_near_is_not_equal():
    apart = 100 * TIE * torch.finfo(torch.float32).eps
    candidates = torch.tensor([[1.0, 0.0], [1.0, apart**0.5]])
    assert recover_tokens(candidates, candidates, torch.arange(2), torch.tensor([0, 2]), "l2").strict.all()


def test_vectors_of_zeros_and_nans_hit_nothing():
    candidates = torch.eye(3)
    for bad in (torch.zeros(3, 3), torch.full((3, 3), torch.nan)):
        found = recover_tokens(bad, candidates, torch.arange(3), torch.tensor([0, 3]), "cosine")
        assert not found.strict.any()
        assert not found.lenient.any()


@pytest.mark.parametrize("metric", ["cosine", "l2"])
def test_vocabulary_search_matches_a_plain_loop(metric):
    rng = np.random.default_rng(0)
    table, offsets = rng.normal(size=(50, 6)), rng.normal(size=(4, 6))
    ids, place = rng.integers(0, 50, 80), rng.integers(0, 4, 80)
    predicted = table[ids] + offsets[place] + rng.normal(size=(80, 6)) * 0.6
    found = recover_from_vocabulary(predicted, table, offsets, place, ids, metric)
    nearest = [
        min(range(50), key=lambda piece: distance(vector, table[piece] + offsets[spot], metric))
        for vector, spot in zip(predicted, place, strict=True)
    ]
    assert found.tolist() == (np.array(nearest) == ids).tolist()
    assert 0.1 < found.mean() < 0.95  # some are found and some are not


def test_duplicates_in_a_vocabulary_are_misses():
    table = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    hits = recover_from_vocabulary(table, table, torch.zeros(1, 2), torch.zeros(3, dtype=torch.int64), torch.arange(3), "cosine")
    assert hits.tolist() == [False, False, True]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"predicted": torch.zeros(4, 3)}, "as wide as the inputs"),
        ({"target": torch.tensor([0, 1, 2, 9])}, "one per prediction, from 0 to 3"),
        ({"target": torch.tensor([3, 2, 1, 0])}, "in the order of their examples"),
        ({"starts": torch.tensor([0, 2, 2, 4])}, "begin at 0, rise, and end at 4"),
        ({"starts": torch.tensor([0, 2])}, "begin at 0, rise, and end at 4"),
    ],
)
def test_mismatched_input_is_rejected(change, message):
    given = {"predicted": torch.eye(4), "candidates": torch.eye(4), "target": torch.arange(4), "starts": torch.tensor([0, 2, 4])}
    with pytest.raises(InputError, match=message):
        recover_tokens(**(given | change), metric="l2")
