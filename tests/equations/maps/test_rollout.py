"""Rollout and flow against other ways to compute them."""

import networkx as nx
import numpy as np
import pytest
import torch

from identiformer.equations.maps.rollout import attention_flow, attention_rollout, layer_mixing


@pytest.fixture
def scores():
    scores = torch.randn(3, 5, 5, dtype=torch.float64)
    scores[1, 2] = 0  # a row without scores
    return scores


def _flow_by_networkx(mixing, positions):
    graph = nx.DiGraph()
    for layer, position, source in np.ndindex(mixing.shape):
        graph.add_edge((layer + 1, position), (layer, source), capacity=float(mixing[layer, position, source]))
    for position in positions:
        graph.add_edge("output", (len(mixing), position), capacity=1 / len(positions))
    flows = np.array([nx.maximum_flow_value(graph, "output", (0, source)) for source in range(mixing.shape[-1])])
    return flows / flows.sum()


@pytest.mark.parametrize("add_residual", [True, False])
def test_mixing_has_rows_of_one(scores, add_residual):
    mixing = layer_mixing(scores, add_residual=add_residual)
    torch.testing.assert_close(mixing.sum(-1), torch.ones(3, 5, dtype=torch.float64))
    expected = scores[0].abs() / scores[0].abs().sum(-1, keepdim=True)
    expected = (expected + torch.eye(5)) / 2 if add_residual else expected
    torch.testing.assert_close(mixing[0], expected)
    torch.testing.assert_close(mixing[1, 2], torch.eye(5, dtype=torch.float64)[2])


def test_rollout_sums_the_products_of_all_paths(scores):
    mixing = layer_mixing(scores).numpy()
    paths = np.zeros((5, 5))
    for position, second, first, source in np.ndindex(5, 5, 5, 5):
        paths[position, source] += mixing[2, position, second] * mixing[1, second, first] * mixing[0, first, source]
    np.testing.assert_allclose(attention_rollout(layer_mixing(scores)), paths, rtol=1e-12)


@pytest.mark.parametrize("positions", [(4,), (0, 2, 3)])
def test_flow_is_that_of_networkx(scores, positions):
    mixing = layer_mixing(scores)
    np.testing.assert_allclose(attention_flow(mixing, positions), _flow_by_networkx(mixing, positions), atol=1e-7)


def test_flow_of_a_causal_map_reaches_no_later_token(scores):
    flow = attention_flow(layer_mixing(scores.tril()), (2,))
    assert (flow[3:] == 0).all()
    assert (flow[:3] > 0).all()
