"""No certified bound is too tight: rows with the same output are within it, on adversarial heads."""

import numpy as np
import pytest
import torch

from identiformer.equations.certificates import alternatives
from identiformer.equations.certificates.intervals import certify_argmax, feasible_sets
from tests.equations.adversarial import make_head, rows_with_the_same_output

SLACK = 2e-9
"""Weights that cannot move by more than 1e-9 count as fixed."""


def check_head(head):
    """The number of rows checked against the certificate of a head."""
    row, values = torch.tensor(head.row)[None], torch.tensor(head.values)
    options = {"tolerance": head.tolerance, "sink": head.sink, "precision": head.precision}
    ((_, _, feasible),) = feasible_sets(row, values, **options)
    intervals = {key: feasible.interval(np.eye(len(head.row))[key]) for key in head.keys}
    low, high = np.full((2, len(head.row)), np.nan)
    for key, interval in intervals.items():
        assert interval.low <= interval.low_reached + SLACK, head
        assert interval.high_reached <= interval.high + SLACK, head
        assert interval.low <= head.row[key] + SLACK, head
        assert interval.high >= head.row[key] - SLACK, head
        low[key], high[key] = interval.low, interval.high
    verdict = certify_argmax(feasible, low, high)
    bound = alternatives.total_variation_bound(
        feasible, np.nan_to_num(low, nan=0.0), np.nan_to_num(high, nan=feasible.largest_sum)
    )
    ours = [alternatives.null_alternative(feasible), alternatives.sparsest_alternative(feasible)]
    ours += [alternatives.farthest_alternative(feasible), *feasible.solver.vertices]
    assert all(feasible.holds(other) for other in ours), head
    count = 0
    for other in (*ours, *rows_with_the_same_output(head)):
        count += 1
        for key, interval in intervals.items():
            assert interval.low - SLACK <= other[key] <= interval.high + SLACK, (head, key, interval, other)
        assert alternatives.total_variation(other, head.row) <= bound + SLACK * len(other), (head, bound, other)
        if verdict.certified:
            assert other[verdict.argmax] > np.delete(other, verdict.argmax).max(initial=-1.0), (head, verdict, other)
    return count


def test_no_bound_is_too_tight_on_adversarial_heads():
    assert sum(check_head(make_head(number)) for number in range(60)) > 600


@pytest.mark.slow
@pytest.mark.parametrize("hundred", range(1, 11))
def test_no_bound_is_too_tight_on_a_thousand_adversarial_heads(hundred):
    assert sum(check_head(make_head(number)) for number in range(100 * hundred, 100 * hundred + 100)) > 1000
