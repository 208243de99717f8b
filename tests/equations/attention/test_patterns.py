"""Shares of patterns: planted maps, and a plain loop over cells."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from identiformer.equations import Visibility, pattern_shares
from identiformer.equations.attention.patterns import PATTERNS
from identiformer.errors import InputError

IDS = torch.tensor([1, 5, 6, 7, 5, 6, 9, 1])
SEPARATORS = IDS == 1
COUNT = len(IDS)


def planted(pattern: str) -> torch.Tensor:
    """A map of eight tokens that follows one pattern wherever it can, and otherwise attends to the token before the last."""
    weights = torch.zeros(COUNT, COUNT, dtype=torch.float64)
    for query in range(COUNT):
        targets = {
            "peak": [3],
            "previous": [query - 1],
            "next": [query + 1],
            "self": [query],
            "induction": [{4: 2, 5: 3}.get(query, 6)],
            "separator": [0, 7],
            "broad": list(range(COUNT)),
        }[pattern]
        targets = targets if 0 <= targets[0] < COUNT else [6]
        weights[query, targets] = 1 / len(targets)
    return weights[None]


# Of the two separators, the first receives as much as the second, and counts as the peak.
@pytest.mark.parametrize(("pattern", "expected"), [(pattern, 0.5 if pattern == "separator" else 1) for pattern in PATTERNS])
def test_the_planted_pattern_has_all_the_weight(pattern, expected):
    visible = Visibility.full(COUNT, COUNT)
    shares = pattern_shares(planted(pattern), visible, separators=SEPARATORS, ids=IDS)._asdict()
    assert float(shares.pop(pattern)) == pytest.approx(expected)
    if pattern == "induction":
        shares.pop("peak")  # the rows without a repeated token have one
    assert all(float(share) <= 0.5 for share in shares.values())


def by_hand(weights, mask, separators, ids):
    """Cell by cell, as the definitions read."""
    found = {pattern: [] for pattern in PATTERNS}
    queries, keys = weights.shape
    peak = int(np.argmax(sum(weights[i] for i in range(queries) if mask[i].sum() > 1) + np.zeros(keys)))
    for i in range(queries):
        visible = [j for j in range(keys) if mask[i, j]]
        if len(visible) < 2:
            continue
        found["peak"].append(weights[i, peak])
        found["separator"].append(sum(weights[i, j] for j in visible if separators[j] and j != peak))
        found["broad"].append(sum(min(weights[i, j], weights[i].sum() / len(visible)) for j in visible))
        for pattern, offset in (("previous", -1), ("next", 1), ("self", 0)):
            if i + offset in visible:
                found[pattern].append(weights[i, i + offset])
        after = [j for j in visible if 1 <= j <= i and ids[j - 1] == ids[i] and not separators[i]]
        if after:
            found["induction"].append(sum(weights[i, j] for j in after))
    return {pattern: np.mean(shares) if shares else np.nan for pattern, shares in found.items()}


@given(st.integers(1, 7), st.booleans(), st.integers(0, 2**32 - 1))
def test_shares_are_those_of_a_plain_loop(count, causal, seed):
    random = np.random.default_rng(seed)
    visible = Visibility.causal(count) if causal else Visibility.full(count, count)
    mask = visible.dense().numpy()
    weights = random.dirichlet(np.full(count, 0.3), size=count) * mask
    weights /= weights.sum(-1, keepdims=True).clip(1e-300)
    separators, ids = random.random(count) < 0.3, random.integers(0, 3, count)
    shares = pattern_shares(weights[None], visible, separators=separators, ids=ids)
    expected = by_hand(weights, mask, separators, ids)
    for pattern in PATTERNS:
        np.testing.assert_allclose(getattr(shares, pattern), [expected[pattern]], atol=1e-12, err_msg=pattern)


def test_between_different_tokens_offsets_are_undefined():
    weights = torch.full((2, 3, 4), 0.25)
    arguments = {"separators": torch.tensor([False, True, False, False])}
    shares = pattern_shares(weights, Visibility.full(3, 4), **arguments)
    assert all(bool(getattr(shares, pattern).isnan().all()) for pattern in ("previous", "next", "self", "induction"))
    assert shares.separator.tolist() == [0.25, 0.25]
    assert shares.broad.tolist() == [1, 1]
    with pytest.raises(InputError, match="expected ids where queries and keys are the same tokens, got 3 queries and 4 keys"):
        pattern_shares(weights, Visibility.full(3, 4), ids=torch.arange(4), **arguments)
