"""Removal inside a layer against one patched run per pair of tokens."""

from functools import partial

import pytest
import torch

import identiformer as idf
from identiformer.equations.attention.removal import knock_out_edges, zero_values
from identiformer.equations.attribution.agreement import cosine_distance
from identiformer.models.inputs import inputs_of_trace
from identiformer.models.interventions.patching import patched_states
from identiformer.models.interventions.removal import layer_effects
from identiformer.models.replica import replica_of
from identiformer.progress import work_bar
from tests.models.families import word_tokenizer, words
from tests.models.perturbed import network_of

TEXT = words(5)


def run(model, weights):
    """The output of each layer, with other weights in some heads."""
    trace, replica = model.trace(TEXT), replica_of(model.network)
    batch = inputs_of_trace(model, trace)
    forward = partial(model.forward, replica, batch.inputs, output_hidden_states=True)
    return patched_states(replica, forward, range(len(trace.stack().layers)), weights)


@pytest.mark.parametrize("renormalized", [False, True])
@pytest.mark.parametrize("family", ["bert", "llama", "gpt_oss"])
def test_one_copy_per_key_matches_one_run_per_edge(family, renormalized):
    model = idf.load(network_of(family), word_tokenizer())
    remove = knock_out_edges if renormalized else zero_values
    with work_bar("removing", False) as bar:
        effects = layer_effects(model, model.encode(TEXT, None, False), {1}, bar, remove)[1]
    layer = model.trace(TEXT).layer(1)
    unchanged, checked = run(model, {})["layer 1"][0], 0
    for query, key in ((1, 0), (3, 2), (5, 1), (5, 5)):
        weights = layer.weights.double().clone()
        weights[:, query, key] = 0
        if renormalized:
            total = 1 if layer.sink else layer.weights.double().sum(-1)[:, query]
            weights[:, query] *= (total / (total - layer.weights.double()[:, query, key]))[:, None]
        changed = run(model, {(1, head): weights[head] for head in range(layer.heads)})["layer 1"][0]
        expected = cosine_distance(unchanged, changed)
        torch.testing.assert_close(effects[query, key], expected[query], rtol=1e-4, atol=1e-9)
        checked += float(expected[query]) > 1e-6
        assert float(expected[:query].amax()) < 1e-9  # an edge changes the row of its query only
    assert checked >= 3
