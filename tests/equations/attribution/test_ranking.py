"""Average precision and the share of relevant keys at the top, against brute force and against chance."""

from itertools import permutations

import numpy as np
import pytest
import torch

from identiformer.equations.attribution.agreement import average_precision, top_share

RELEVANT = torch.tensor([False, True, False, True, False])
EVERY = torch.ones(5, dtype=torch.bool)


def precision_by_hand(scores):
    """Average precision of one ranking without ties: precision at the rank of each relevant key."""
    order = scores.argsort(descending=True).tolist()
    hits = [rank for rank, key in enumerate(order) if RELEVANT[key]]
    return np.mean([(index + 1) / (rank + 1) for index, rank in enumerate(hits)])


def test_every_ranking_has_the_precision_and_share_of_a_count_by_hand():
    rankings = torch.tensor(list(permutations(range(5)))).double()
    precision, share = (measure(rankings, RELEVANT, EVERY) for measure in (average_precision, top_share))
    np.testing.assert_allclose(precision, [precision_by_hand(scores) for scores in rankings])
    np.testing.assert_allclose(share, [sum(RELEVANT[scores.topk(2).indices]) / 2 for scores in rankings])
    assert precision.max() == share.max() == 1
    # Scores that are all equal are at chance: the mean share of all rankings.
    assert float(top_share(torch.zeros(5), RELEVANT, EVERY)) == pytest.approx(float(share.mean()))
    assert float(average_precision(torch.zeros(5), RELEVANT, EVERY)) == pytest.approx(float(precision.mean()))


@pytest.mark.parametrize("measure", [average_precision, top_share])
def test_equal_scores_count_as_the_mean_over_their_orders(measure):
    tied = torch.tensor([2.0, 1.0, 1.0, 1.0, 0.0]).double()
    orders = torch.tensor([[2.0, *(1 + 0.1 * np.array(order)), 0.0] for order in permutations(range(3))]).double()
    torch.testing.assert_close(measure(tied, RELEVANT, EVERY), measure(orders, RELEVANT, EVERY).mean())


def test_keys_that_are_not_candidates_do_not_count():
    candidate = torch.tensor([False, True, True, True, True])
    scores = torch.tensor([[9.0, 3.0, 1.0, 2.0, 0.0], [9.0, 0.0, 3.0, 2.0, 1.0]])
    for measure in (average_precision, top_share):
        torch.testing.assert_close(measure(scores, RELEVANT, candidate), measure(scores[:, 1:], RELEVANT[1:], EVERY[1:]))
        assert measure(scores, EVERY & False, candidate).isnan().all()
