"""Removal measured at the model's output against one whole run per removal."""

from functools import partial

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

import identiformer as idf
from identiformer.equations.attention.removal import knock_out_edges, zero_values
from identiformer.equations.attribution.agreement import cosine_distance
from identiformer.errors import UnsupportedModelError
from identiformer.models.inputs import inputs_of_trace
from identiformer.models.interventions import output_effects
from identiformer.models.interventions.patching import patched_states
from identiformer.models.replica import replica_of
from tests.models.families import SERVED, word_tokenizer, words
from tests.models.network_state import network_state
from tests.models.perturbed import network_of

TEXT = words(4)


def model_of(family):
    if family != "predicting":
        return idf.load(network_of(family), word_tokenizer())
    network = AutoModelForCausalLM.from_config(AutoConfig.for_model("llama", **SERVED["llama"])).double().eval()
    return idf.load(network, word_tokenizer())


def patched_output(model, weights):
    """The output of a whole run with other weights in all heads of a layer."""
    trace, replica = model.trace(TEXT), replica_of(model.network)
    batch = inputs_of_trace(model, trace)
    forward = partial(model.forward, replica, batch.inputs, output_hidden_states=True)
    return patched_states(replica, forward, range(len(trace.stack().layers)), weights)["output"][0]


def effect(family, unchanged, changed):
    if family != "predicting":
        return cosine_distance(unchanged, changed)
    return torch.nn.functional.kl_div(changed.log_softmax(-1), unchanged.log_softmax(-1), log_target=True, reduction="none").sum(
        -1
    )


@pytest.mark.parametrize("family", ["bert", "albert", "gpt2", "predicting", "t5"])
@pytest.mark.parametrize("edges", [False, True])
def test_resumed_runs_match_one_whole_run_per_removal(family, edges, monkeypatch):
    monkeypatch.setattr(output_effects, "TOKENS_AT_ONCE", 30)
    model = model_of(family)
    before = network_state(model.network)
    remove = knock_out_edges if edges else zero_values
    effects = output_effects.output_effects(model, model.encode(TEXT, None, False), [1, 2], remove, edges=edges)
    assert network_state(model.network) == before
    unchanged, sizes = patched_output(model, {}), []
    for number, query, key in ((1, 2, 1), (1, 3, 0), (2, 3, 2)):
        layer = model.trace(TEXT).layer(number)
        weights = layer.weights.double().clone()
        rows = [query] if edges else slice(None)
        weights[:, rows, key] = 0
        if edges:
            weights[:, rows] /= weights[:, rows].sum(-1, keepdim=True)
        patches = {(number, head): weights[head] for head in range(layer.heads)}
        expected = effect(family, unchanged, patched_output(model, patches))[query]
        torch.testing.assert_close(effects[number][query, key], expected, rtol=1e-5, atol=1e-10)
        sizes.append(float(expected))
    assert max(sizes) > 1e-6


def test_the_last_layer_of_a_model_without_a_final_norm_is_its_output():
    model = model_of("bert")
    effects = output_effects.output_effects(model, model.encode(TEXT, None, False), [2], zero_values, edges=False)
    torch.testing.assert_close(effects[2].numpy(), idf.value_zeroing(model, TEXT).effect.values[1], rtol=1e-6, atol=1e-12)


def test_models_without_one_vector_per_token_are_rejected(monkeypatch):
    model = model_of("bert")
    model.trace(TEXT)
    run = type(model).forward
    monkeypatch.setattr(type(model), "forward", lambda self, *args, **named: (run(self, *args, **named), object())[1])
    with pytest.raises(UnsupportedModelError, match="returns no hidden vector per token"):
        output_effects.output_effects(model, model.encode(TEXT, None, False), [1], zero_values, edges=False)
