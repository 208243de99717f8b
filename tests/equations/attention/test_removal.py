"""Removed keys against the definition: change the weights or values of one pair, and multiply again."""

import pytest
import torch

from identiformer.equations.attention.removal import average_values, knock_out_edges, zero_values

HEADS, QUERIES, KEYS, WIDTH, MODEL = 4, 5, 6, 3, 7


def head(sink=False):
    scores = torch.randn(HEADS, QUERIES, KEYS + sink, dtype=torch.float64)
    values = torch.randn(2, KEYS, WIDTH, dtype=torch.float64)  # two heads share a group
    return scores, scores.softmax(-1)[..., :KEYS], values, torch.randn(HEADS, WIDTH, MODEL, dtype=torch.float64)


def by_definition(name, scores, weights, values, query, key):
    repeated = values.repeat_interleave(2, 0)
    if name == "zero":
        repeated[:, key] = 0
    elif name == "mean":
        repeated[:, key] = repeated.mean(1)
    else:
        scores = scores.clone()
        scores[:, query, key] = -torch.inf
        weights = scores.softmax(-1)[..., :KEYS]
    return (weights @ repeated)[:, query]


@pytest.mark.parametrize("sink", [False, True])
@pytest.mark.parametrize(("name", "remove"), [("zero", zero_values), ("mean", average_values), ("edge", knock_out_edges)])
def test_changes_match_the_definition(name, remove, sink):
    scores, weights, values, projection = head(sink)
    removal = remove(weights, values, sink)
    changes, relative = removal.changes(torch.arange(KEYS)), removal.relative_changes(projection)
    outputs = weights @ values.repeat_interleave(2, 0)
    for query in range(QUERIES):
        for key in range(KEYS):
            change = by_definition(name, scores, weights, values, query, key) - outputs[:, query]
            torch.testing.assert_close(changes[key, :, query], change)
            written = [torch.einsum("hw,hwm->hm", vectors, projection).norm(dim=-1) for vectors in (change, outputs[:, query])]
            torch.testing.assert_close(relative[:, query, key], written[0] / written[1])


def test_one_head_changes_alone():
    _, weights, values, _ = head()
    removal = knock_out_edges(weights, values)
    changes = removal.of_head(1).changes(torch.arange(KEYS))
    torch.testing.assert_close(changes[:, 1], removal.changes(torch.arange(KEYS))[:, 1])
    assert not changes[:, [0, 2, 3]].any()


def test_an_edge_that_is_all_of_its_row_cannot_be_knocked_out():
    removal = knock_out_edges(torch.tensor([[[1.0, 0.0], [0.4, 0.6]]]), torch.ones(1, 2, 1))
    assert removal.factor[0].isnan().tolist() == [[True, False], [False, False]]
    assert removal.changes(torch.tensor([0]))[0, 0, 0] == 0
