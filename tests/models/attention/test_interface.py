"""Attention is recorded as the untouched model computes it, whatever the family, and the model is left as it was."""

import pytest
import torch

from identiformer.equations import effective_attention
from identiformer.errors import UnsupportedModelError
from identiformer.models import load
from tests.models.families import ENCODER_DECODERS, REFUSED, SERVED, build, check_value_bias, word_tokenizer, words

TOKENIZER = word_tokenizer()


def own_attentions(network, text):
    network.set_attn_implementation("eager")
    inputs = TOKENIZER(text, return_tensors="pt")
    inputs = {name: tensor for name, tensor in inputs.items() if name in ("input_ids", "attention_mask")}
    with torch.no_grad():
        return network(**inputs, output_attentions=True, use_cache=False).attentions


@pytest.mark.parametrize("family", SERVED)
def test_recorded_weights_are_the_models_own(family):
    network = build(family, SERVED[family])
    trace = load(network, TOKENIZER).trace(words(11))
    expected = own_attentions(build(family, SERVED[family]), words(11))
    layers = trace.stack().layers
    assert len(layers) == len(expected) == 2
    for layer, attention in zip(layers, expected, strict=True):
        assert torch.equal(layer.weights, attention[0])
        assert torch.equal(layer.weights == 0, layer.weights.masked_fill(~layer.visible.dense(), 0) == 0)


@pytest.mark.parametrize("family", SERVED)
def test_heads_through_their_projection_make_the_attention_output(family):
    """Σ_h A_h V_h H_h + b is what the layer's output projection gives: values, grouping and H are the right ones."""
    network = build(family, SERVED[family])
    model = load(network, TOKENIZER)
    sites = model.sites(_batch(model, words(9)))
    made = []
    hooks = [site.output_map.register_forward_hook(lambda _, __, result: made.append(result)) for site in set_of(sites)]
    trace = model.trace(words(9))
    for hook in hooks:
        hook.remove()
    for layer, site, output in zip(trace.stack().layers, sites, made, strict=True):
        values = layer.values.repeat_interleave(layer.heads // len(layer.values), 0)
        bias = site.output_map.bias
        rebuilt = torch.einsum("hqk,hkw,hwm->qm", layer.weights, values, layer.projection)
        torch.testing.assert_close(rebuilt + (0 if bias is None else bias), output[0], atol=1e-5, rtol=1e-4)


def _batch(model, text):
    from identiformer.models.encoding.text import encode

    return encode(model.tokenizer, [text], None, model.positions, False, False)


def set_of(sites):
    """ALBERT calls one module for every layer: hook each module once."""
    return list({id(site.output_map): site for site in sites}.values())


@pytest.mark.parametrize("family", SERVED)
def test_value_bias_is_found(family):
    network = build(family, SERVED[family])
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if name.endswith("bias"):
                parameter.normal_()
    model = load(network, TOKENIZER)
    check_value_bias(model, model.sites(_batch(model, words(9)))[0], words(9))


@pytest.mark.parametrize("family", SERVED)
def test_padded_batch_gives_what_single_texts_give(family):
    model = load(build(family, SERVED[family]), TOKENIZER)
    texts = [words(14), words(5, 3), words(9, 11)]
    for text, together in zip(texts, model.trace(texts), strict=True):
        alone = model.trace(text)
        assert alone.tokens == together.tokens
        for one, other in zip(alone.stack().layers, together.stack().layers, strict=True):
            torch.testing.assert_close(one.weights, other.weights, atol=1e-5, rtol=0)
            assert torch.equal(one.visible.dense(), other.visible.dense())
            first, second = (
                effective_attention(layer.weights, layer.values, layer.visible, sink=layer.sink) for layer in (one, other)
            )
            torch.testing.assert_close(first, second, atol=1e-5, rtol=0)


@pytest.mark.parametrize("family", ["bert", "llama", "gpt_oss"])
def test_the_model_is_left_as_it_was_also_after_an_exception(family, monkeypatch):
    network = build(family, SERVED[family])
    network.train()
    network.set_attn_implementation("eager")
    weights = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    flags = [module.training for module in network.modules()]
    hooks = sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in network.modules())
    model = load(network, TOKENIZER)
    model.trace(words(6))
    monkeypatch.setattr("identiformer.models.attention.layers.layer_of", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        model.trace(words(6))
    assert network.config._attn_implementation == "eager"
    assert [module.training for module in network.modules()] == flags
    assert hooks == sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in network.modules())
    assert all(torch.equal(weights[name], tensor) for name, tensor in network.state_dict().items())


@pytest.mark.parametrize("family", REFUSED)
def test_attention_that_cannot_be_recorded_is_refused_by_name(family):
    settings, reason = REFUSED[family]
    model = load(build(family, settings), TOKENIZER)
    with pytest.raises(UnsupportedModelError, match=reason):
        model.trace(words(6))


@pytest.mark.parametrize("family", ENCODER_DECODERS)
def test_encoder_decoders_have_three_parts(family):
    network = build(family, ENCODER_DECODERS[family])
    trace = load(network, TOKENIZER).trace(words(9), words(5, 3))
    network.set_attn_implementation("eager")
    encoder, decoder = (TOKENIZER(text, return_tensors="pt")["input_ids"] for text in (words(9), words(5, 3)))
    with torch.no_grad():
        out = network(input_ids=encoder, decoder_input_ids=decoder, output_attentions=True, use_cache=False)
    expected = {"encoder": out.encoder_attentions, "decoder": out.decoder_attentions, "cross": out.cross_attentions}
    assert {stack.kind for stack in trace.stacks} == set(expected)
    for name, attentions in expected.items():
        for layer, attention in zip(trace.stack(name).layers, attentions, strict=True):
            assert torch.equal(layer.weights, attention[0])
    assert (len(trace.stack("cross").queries), len(trace.stack("cross").keys)) == (7, 11)
    alone = load(network, TOKENIZER).trace(words(9))
    assert [stack.kind for stack in alone.stacks] == ["encoder"]


@pytest.mark.parametrize("family", ["llama", "mistral", "bert", "gpt2", "qwen3"])
def test_fused_trace_gives_the_effective_attention_of_the_recorded_one(family):
    model = load(build(family, SERVED[family]), TOKENIZER)
    text = words(30)
    recorded, fused = model.trace(text), model.trace(text, form="factored", raw_norms=True)
    for layer, factored in zip(recorded.stack().layers, fused.stack().layers, strict=True):
        expected = effective_attention(layer.weights, layer.values, layer.visible)
        torch.testing.assert_close(factored.effective().matrices(), expected, atol=2e-4, rtol=0)
        torch.testing.assert_close(factored.raw_squared_norm, layer.weights.double().square().sum(-1), atol=1e-5, rtol=1e-5)


def test_a_family_without_fused_attention_says_so():
    model = load(build("gpt_oss", SERVED["gpt_oss"]), TOKENIZER)
    with pytest.raises(UnsupportedModelError, match="gpt_oss"):
        model.trace(words(6), form="factored")
    assert model.trace(words(6)).layer(1).sink
