"""What is recorded of a model is what the untouched model computes: the same laws for every family."""

import pytest
import torch

from identiformer.equations import effective_attention
from identiformer.equations.attention.heads import per_head
from identiformer.errors import UnsupportedModelError
from identiformer.models import load
from identiformer.models.attention.interface import WEIGHTS, recording
from identiformer.models.inputs import inputs_of_trace
from tests.models.every_family import FAMILIES, TOKENIZER, model_of, network_of, shared_model_of
from tests.models.families import ENCODER_DECODERS, OUTSIDE_THE_INTERFACE, SERVED, check_value_bias, each, words
from tests.models.network_state import network_state

RETURNED = {"self": "attentions", "encoder": "encoder_attentions", "decoder": "decoder_attentions", "cross": "cross_attentions"}
NO_PROJECTION = {"convbert", "ibert", "xlnet"}  # whose head outputs no linear map alone reads
NO_VALUE_MAP = {"deberta", "ibert", "xlnet"}  # whose values are computed by other operations than one linear map
NO_FUSED_KERNEL = {"gemma2", "gpt_oss", "t5", *OUTSIDE_THE_INTERFACE}
NO_RAW_NORMS = {"deepseek_v3"}


def texts_of(family, length=9):
    return (words(length), words(5, 3)) if family in ENCODER_DECODERS else (words(length),)


def returned_attentions(network, family, texts):
    """The weights that the model itself returns, by attention type."""
    if hasattr(network, "set_attention_type"):
        network.set_attention_type("original_full")
    # Falcon ignores set_attn_implementation, and under sdpa returns weights that are not causal and not those it ran with.
    for module in network.modules():
        if hasattr(module, "config"):
            module.config._attn_implementation_internal = "eager"
    encoded = [TOKENIZER(text, return_tensors="pt") for text in texts]
    inputs = {name: encoded[0][name] for name in ("input_ids", "attention_mask")}
    if len(texts) > 1:
        inputs |= {"decoder_input_ids": encoded[1]["input_ids"]}
    options = {} if family in OUTSIDE_THE_INTERFACE else {"use_cache": False}
    with torch.no_grad():
        result = network(**inputs, **options, output_attentions=True)
    attentions = {kind: getattr(result, name, None) for kind, name in RETURNED.items()}
    return {
        kind: [from_band(weights[0], 4) if family == "longformer" else weights[0] for weights in layers]
        for kind, layers in attentions.items()
        if layers
    }


def from_band(band, window):
    """The rows (head query offset) of a window as (head query key), position by position."""
    heads, queries, _ = band.shape
    dense = torch.zeros(heads, queries, queries)
    for query in range(queries):
        for key in range(max(0, query - window), min(queries, query + window + 1)):
            dense[:, query, key] = band[:, query, key - query + window]
    return dense


@pytest.mark.parametrize("family", FAMILIES)
def test_recorded_weights_are_those_that_the_model_returns(family):
    network, texts = network_of(family), texts_of(family, 11)
    trace = load(network, TOKENIZER).trace(*texts)
    expected = returned_attentions(network, family, texts)
    assert {stack.kind for stack in trace.stacks} == expected.keys()
    for stack in trace.stacks:
        assert len(stack.layers) == len(expected[stack.kind]) == 2
        for layer, attention in zip(stack.layers, expected[stack.kind], strict=True):
            assert torch.equal(layer.weights, attention)
            assert not layer.weights[:, ~layer.visible.dense()].any()
            if family in OUTSIDE_THE_INTERFACE:
                assert layer.weights.std() > 1e-3, "attention too uniform to test anything"
                assert torch.equal(layer.weights != 0, layer.visible.dense().expand_as(layer.weights))


@pytest.mark.parametrize("family", each(FAMILIES))
def test_weights_times_values_are_the_head_outputs_that_the_model_uses(family):
    model, texts = shared_model_of(family), texts_of(family)
    trace = model.trace(*texts)
    batch, outputs = inputs_of_trace(model, trace), []
    with recording(replica := model.replica(), WEIGHTS, lambda call: outputs.append(call.output)):
        model.forward(replica, batch.inputs)
    sites = model.sites(batch)
    for stack in trace.stacks:
        of_kind = [output for output, site in zip(outputs, sites, strict=True) if site.kind == stack.kind]
        for layer, output in zip(stack.layers, of_kind, strict=True):
            product = layer.weights @ per_head(layer.values, layer.heads)
            torch.testing.assert_close(product.transpose(0, 1), output[0, : product.shape[1]], atol=1e-6, rtol=1e-5)
            effective = effective_attention(layer.weights, layer.values, layer.visible, sink=layer.sink)
            again = effective.double() @ per_head(layer.values, layer.heads).double()
            torch.testing.assert_close(again, product.double(), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("family", each(sorted(FAMILIES.keys() - NO_PROJECTION)))
def test_heads_through_their_projection_are_the_attention_output(family):
    """Σ_h A_h V_h H_h + b is the result of the layer's output projection: values, groups and H are the right ones."""
    model, texts = model_of(family), texts_of(family)
    trace = model.trace(*texts)
    sites, results = model.sites(inputs_of_trace(model, trace)), []
    for module in {site.output_map for site in sites}:  # ALBERT has one for all layers
        module.register_forward_hook(lambda _, __, result: results.append(result))
    trace = model.trace(*texts)
    layers = {stack.kind: iter(stack.layers) for stack in trace.stacks}
    for site, result in zip(sites, results, strict=True):
        layer = next(layers[site.kind])
        values = per_head(layer.values, layer.heads)
        rebuilt = torch.einsum("hqk,hkw,hwm->qm", layer.weights, values, layer.projection)
        bias = 0 if site.output_map.bias is None else site.output_map.bias
        torch.testing.assert_close(rebuilt + bias, result.view(-1, rebuilt.shape[-1])[: len(rebuilt)], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("family", each(sorted(FAMILIES.keys() - NO_VALUE_MAP)))
def test_value_bias_and_projection_are_found(family):
    network = network_of(family)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if name.endswith("bias"):
                parameter.normal_()
    model = load(network, TOKENIZER)
    trace = model.trace(words(9))
    assert (trace.layer(1).projection is None) == (family in NO_PROJECTION)
    check_value_bias(model, model.sites(inputs_of_trace(model, trace))[0], words(9))


@pytest.mark.parametrize("family", each(FAMILIES))
def test_a_padded_batch_gives_the_traces_of_single_texts(family):
    model = shared_model_of(family)
    texts = [words(14), words(5, 3), words(9, 11)]
    for text, padded in zip(texts, model.trace(texts), strict=True):
        unpadded = model.trace(text)
        assert unpadded.tokens == padded.tokens
        for one, other in zip(unpadded.stack().layers, padded.stack().layers, strict=True):
            torch.testing.assert_close(one.weights, other.weights, atol=1e-5, rtol=0)
            assert torch.equal(one.visible.dense(), other.visible.dense())
            first, second = (
                effective_attention(layer.weights, layer.values, layer.visible, sink=layer.sink) for layer in (one, other)
            )
            if family in SERVED:
                torch.testing.assert_close(first, second, atol=1e-5, rtol=0)


@pytest.mark.parametrize("family", each(FAMILIES))
def test_the_factored_form_is_the_effective_attention_of_the_recorded_one(family):
    model, text = shared_model_of(family), words(30 if family not in OUTSIDE_THE_INTERFACE else 6)
    if family in NO_FUSED_KERNEL:
        with pytest.raises(UnsupportedModelError, match=r"form='weights'"):
            model.trace(text, form="factored", raw_norms=True)
        return
    raw = {} if family in NO_RAW_NORMS else {"raw_norms": True, "rows": [17, 2]}
    recorded, fused = model.trace(text), model.trace(text, form="factored", **raw)
    for layer, factored in zip(recorded.stack().layers, fused.stack().layers, strict=True):
        expected = effective_attention(layer.weights, layer.values, layer.visible)
        torch.testing.assert_close(factored.effective().matrices().float(), expected, atol=2e-4, rtol=0)
        if raw:
            squared = layer.weights.double().square().sum(-1)
            torch.testing.assert_close(factored.raw_squared_norm, squared, atol=1e-5, rtol=1e-5)
            rows = factored.recorded_rows([2, 17])
            torch.testing.assert_close(rows.weights, layer.weights[:, [2, 17]], atol=1e-6, rtol=1e-5)
            torch.testing.assert_close(rows.values, layer.values, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("family", each(FAMILIES))
def test_only_patched_weights_change_the_output(family):
    model = shared_model_of(family)
    trace = model.trace(words(12))
    layer, outside = trace.layer(1), family in OUTSIDE_THE_INTERFACE
    assert model.rerun(trace, {(1, 1): layer.weights[1]}).output.patched <= (1e-5 if outside else 1e-6)
    shifted = torch.zeros_like(layer.weights[1])
    shifted[torch.arange(len(shifted)), layer.visible.stop - 1] = 1
    result = model.rerun(trace, {(1, 1): shifted})
    assert result.output.patched > (1e-3 if outside else 1e-5)
    assert result.output.control > 1e-5
    assert result.output.floor <= (1e-5 if outside else 1e-6)
    if not outside:
        assert [change.where for change in result.changes] == ["layer 1", "layer 2", "output"]


@pytest.mark.parametrize("family", each(FAMILIES))
def test_the_network_is_unchanged_also_after_an_exception(family, monkeypatch):
    network = network_of(family).train()
    before = network_state(network)
    model = load(network, TOKENIZER)
    model.trace(words(6))
    monkeypatch.setattr("identiformer.models.tracing.layer_of", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        model.trace(words(6))
    assert network_state(network) == before
