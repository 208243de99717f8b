"""Families whose attention does not pass through the interface: what is recorded is what they compute."""

import pytest
import torch

from identiformer.equations import effective_attention
from identiformer.errors import UnsupportedModelError
from identiformer.measures import token_attribution
from identiformer.models import load
from identiformer.models.attention.interface import WEIGHTS, recording
from identiformer.support.tiny_models import tiny_model
from tests.models.families import BESIDE_THE_INTERFACE as FAMILIES
from tests.models.families import build, check_value_bias, word_tokenizer, words

TOKENIZER = word_tokenizer()


def shaken(family):
    """A model whose weights are far enough from zero for relative positions and biases to matter."""
    network = build(family, FAMILIES[family])
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.15)
    return network


def own_attentions(network, text, window=None):
    if hasattr(network, "set_attention_type"):
        network.set_attention_type("original_full")
    # Falcon ignores set_attn_implementation, and under sdpa gives out weights that are not causal and not what it ran with.
    network.config._attn_implementation_internal = "eager"
    inputs = TOKENIZER(text, return_tensors="pt")
    inputs = {name: tensor for name, tensor in inputs.items() if name in ("input_ids", "attention_mask")}
    with torch.no_grad():
        attentions = network(**inputs, output_attentions=True).attentions
    return [attention[0] if window is None else from_band(attention[0], window) for attention in attentions]


def from_band(band, window):
    """The rows (head query offset) of a window as (head query key), position by position."""
    heads, queries, _ = band.shape
    dense = torch.zeros(heads, queries, queries)
    for query in range(queries):
        for key in range(max(0, query - window), min(queries, query + window + 1)):
            dense[:, query, key] = band[:, query, key - query + window]
    return dense


@pytest.mark.parametrize("family", FAMILIES)
def test_recorded_weights_are_the_models_own(family):
    network = shaken(family)
    layers = load(network, TOKENIZER).trace(words(11)).stack().layers
    expected = own_attentions(network, words(11), window=4 if family == "longformer" else None)
    assert len(layers) == len(expected) == 2
    for layer, attention in zip(layers, expected, strict=True):
        assert torch.equal(layer.weights, attention)
        assert layer.weights.std() > 1e-3, "attention too even to tell anything"
        assert torch.equal(layer.weights != 0, layer.visible.dense().expand_as(layer.weights))


@pytest.mark.parametrize("family", FAMILIES)
def test_weights_times_values_are_the_head_outputs_that_the_model_goes_on_with(family):
    network = shaken(family)
    model = load(network, TOKENIZER)
    layers = model.trace(words(9)).stack().layers
    outputs = []
    inputs = {name: tensor for name, tensor in TOKENIZER(words(9), return_tensors="pt").items() if name != "token_type_ids"}
    replica = model.replica()
    with recording(replica, WEIGHTS, lambda call: outputs.append(call.output)):
        model._forward(replica, inputs, False)
    for layer, output in zip(layers, outputs, strict=True):
        values = layer.values.repeat_interleave(layer.heads // len(layer.values), 0)
        torch.testing.assert_close((layer.weights @ values).transpose(0, 1), output[0, :11], atol=1e-6, rtol=1e-5)
        if layer.projection is not None:
            seen = torch.einsum("hqk,hkw,hwm->hqm", layer.weights.double(), values.double(), layer.projection.double())
            effective = effective_attention(layer.weights, layer.values, layer.visible).double()
            again = torch.einsum("hqk,hkw,hwm->hqm", effective, values.double(), layer.projection.double())
            torch.testing.assert_close(again, seen, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_padded_batch_gives_what_single_texts_give(family):
    model = load(shaken(family), TOKENIZER)
    texts = [words(14), words(5, 3)]
    for text, together in zip(texts, model.trace(texts), strict=True):
        for one, other in zip(model.trace(text).stack().layers, together.stack().layers, strict=True):
            torch.testing.assert_close(one.weights, other.weights, atol=1e-5, rtol=0)
            assert torch.equal(one.visible.dense(), other.visible.dense())


@pytest.mark.parametrize("family", FAMILIES)
def test_own_weights_change_nothing_and_others_do(family):
    model = load(shaken(family), TOKENIZER)
    trace = model.trace(words(12))
    layer = trace.layer(1)
    assert model.rerun(trace, {(1, 1): layer.weights[1]}).output.patched <= 1e-5
    other = torch.zeros_like(layer.weights[1])
    other[torch.arange(len(other)), layer.visible.stop - 1] = 1
    assert model.rerun(trace, {(1, 1): other}).output.patched > 1e-3


@pytest.mark.parametrize("family", sorted(set(FAMILIES) - {"deberta", "ibert", "xlnet"}))
def test_value_bias_and_projection_are_found(family):
    network = shaken(family)
    model = load(network, TOKENIZER)
    site = model.sites(model._encode(words(9), None, False))[0]
    projection = model.trace(words(9)).layer(1).projection
    assert (projection is not None) == (family != "convbert")  # whose heads go on beside a convolution
    check_value_bias(model, site, words(9))


@pytest.mark.parametrize("family", FAMILIES)
def test_the_model_is_left_as_it_was_also_after_an_exception(family, monkeypatch):
    network = shaken(family)
    modules = list(network.modules())
    weights = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    model = load(network, TOKENIZER)
    model.trace(words(6))
    monkeypatch.setattr("identiformer.models.attention.layers.layer_of", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        model.trace(words(6))
    assert list(network.modules()) == modules
    assert not any("forward" in vars(module) for module in modules)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in modules)
    assert all(torch.equal(weights[name], tensor) for name, tensor in network.state_dict().items())


NOT_ATTRIBUTED = ("longformer",)  # which pads its positions to whole windows


@pytest.mark.parametrize("family", sorted({*FAMILIES} - {*NOT_ATTRIBUTED}))
def test_they_can_be_attributed(family):
    found = token_attribution(load(shaken(family), TOKENIZER), words(4), exact=True)
    torch.testing.assert_close(torch.tensor(found.contribution.sum("source").values).float(), torch.ones(2, 6), atol=1e-5, rtol=0)


def test_a_big_bird_that_attends_to_blocks_is_refused_and_keeps_its_blocks():
    model = load(build("big_bird", FAMILIES["big_bird"]), TOKENIZER)
    assert model.trace(words(20)).layer(1).weights.shape == (4, 22, 22)
    with pytest.raises(UnsupportedModelError, match=r"28 tokens.*got 42.*blocks"):
        model.trace(words(40))
    assert model.network.attention_type == "block_sparse"


@pytest.mark.parametrize("family", NOT_ATTRIBUTED)
def test_what_cannot_be_attributed_says_why(family):
    with pytest.raises(UnsupportedModelError, match=f"{family}.*one input vector a position"):
        token_attribution(load(shaken(family), TOKENIZER), words(4), exact=True)


def test_a_family_whose_eager_attention_is_another_is_refused():
    network = tiny_model("paligemma")
    with pytest.raises(UnsupportedModelError, match=r"with eager attention.*paligemma.*attn_implementation='eager'"):
        load(network, TOKENIZER).trace(words(6))
    network.set_attn_implementation("eager")
    assert load(network, TOKENIZER).trace(words(6)).layer(1).weights.shape == (4, 8, 8)


def test_long_texts_are_refused_in_factored_form():
    with pytest.raises(UnsupportedModelError, match=r"mpnet.*form='weights'"):
        load(build("mpnet", FAMILIES["mpnet"]), TOKENIZER).trace(words(6), form="factored")
