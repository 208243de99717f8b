"""Recorded blocks are what the model computes, and other layouts are rejected with the reason."""

import pytest
import torch

from identiformer.errors import UnsupportedModelError
from identiformer.models import load
from identiformer.models.blocks.recording import record_blocks
from identiformer.support.tiny_models import tiny_model
from tests.models.families import ENCODER_DECODERS, SERVED, build, word_tokenizer, words
from tests.models.network_state import network_state

KNOWN = ("bert", "roberta", "electra", "llama", "mistral", "gpt2")


def model_of(family):
    return load(tiny_model(family), word_tokenizer())  # with noise in every weight and bias


def run(model, text):
    inputs = model.encode(text, None, False).inputs
    with torch.no_grad():
        return model.backbone(**inputs, output_hidden_states=True)


@pytest.mark.parametrize("family", KNOWN)
def test_recorded_states_are_those_of_the_model(family):
    model, text = model_of(family), words(7)
    before = network_state(model.network)
    recorded = record_blocks(model, model.encode(text, None, False))
    assert network_state(model.network) == before
    expected = run(model, text)
    for block, state in zip(recorded.blocks, expected.hidden_states, strict=False):
        torch.testing.assert_close(block.x, state[0].double(), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(recorded.result, expected.last_hidden_state[0].double(), rtol=1e-4, atol=1e-4)
    assert (recorded.final_norm is None) == recorded.blocks[0].norms_follow


@pytest.mark.parametrize("family", KNOWN)
def test_recorded_weights_compute_the_recorded_states(family):
    model, text = model_of(family), words(7)
    recorded, trace = record_blocks(model, model.encode(text, None, False)), model.trace(text)
    for number, block in enumerate(recorded.blocks, 1):
        layer = trace.layer(number).recorded()
        values = (block.read @ block.values.weight.double() + block.values.bias).unflatten(-1, (len(layer.values), -1))
        torch.testing.assert_close(values.transpose(0, 1), layer.values.double(), rtol=1e-4, atol=1e-4)
        heads = layer.weights.double() @ layer.values.double().repeat_interleave(layer.heads // len(layer.values), 0)
        attention = heads.transpose(0, 1).flatten(1) @ block.projection.weight.double() + block.projection.bias
        torch.testing.assert_close(attention, block.attention, rtol=1e-4, atol=1e-4)
        read = block.middle if block.norms_follow else block.feed_forward_norm.output
        features = [read @ part.weight.double() + part.bias for part in block.feed_forward.into]
        for computed, feature in zip(features, block.feed_forward.features, strict=True):
            torch.testing.assert_close(computed, feature, rtol=1e-4, atol=1e-4)
        hidden = block.feed_forward.activation(features[0]) * (features[1] if block.feed_forward.gated else 1)
        written = hidden @ block.feed_forward.out_of.weight.double() + block.feed_forward.out_of.bias
        torch.testing.assert_close(written, block.feed_forward.output, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_the_linear_part_of_a_norm_splits_its_output(family):
    block = record_blocks((model := model_of(family)), model.encode(words(7), None, False)).blocks[0]
    norm = block.attention_norm
    point = block.x + block.attention if block.norms_follow else block.x
    parts = torch.randn(3, *point.shape, dtype=torch.float64)
    parts[2] = point - parts[:2].sum(0)
    torch.testing.assert_close(norm.linear(parts).sum(0) + norm.bias, norm.output)


@pytest.mark.parametrize("family", ["opt", "qwen3", "t5"])
def test_another_layout_is_rejected(family):
    model = load(build(family, {**SERVED, **ENCODER_DECODERS}[family]), word_tokenizer())
    with pytest.raises(UnsupportedModelError, match=f"layout of BERT, Llama or GPT-2, got those of the {family} family"):
        record_blocks(model, model.encode(words(5), None, False))


OTHERS = [
    ("granite", "residual sums"),
    ("gemma", "norms"),
    ("ibert", "activation"),
    ("openai-gpt", "inputs and outputs of modules"),
]


@pytest.mark.parametrize(("family", "what"), OTHERS)
def test_a_known_layout_that_computes_something_else_is_rejected(family, what):
    network = tiny_model(family)
    if family == "granite":
        network.config.residual_multiplier = 0.5
        for layer in network.layers:
            layer.residual_multiplier = 0.5
    with pytest.raises(UnsupportedModelError, match=f"its {what} are not those"):
        record_blocks((model := load(network, word_tokenizer())), model.encode(words(5), None, False))


def test_half_precision_is_recorded(minilm):
    text = "He said hello."
    half = load(tiny_model("llama").bfloat16(), word_tokenizer())
    recorded, expected = record_blocks(half, half.encode(words(5), None, False)), run(half, words(5))
    for block, state in zip(recorded.blocks, expected.hidden_states, strict=False):
        assert torch.equal(block.x, state[0].double())
    # The model rounds the last norm to eight bits.
    torch.testing.assert_close(recorded.result, expected.last_hidden_state[0].double(), rtol=2**-7, atol=2**-7)
    assert record_blocks(minilm, minilm.encode(text, None, False)).result.dtype == torch.float64
