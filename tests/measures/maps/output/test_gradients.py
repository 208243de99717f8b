"""Explanations by derivatives, against finite differences and the laws that they obey."""

import copy

import numpy as np
import pytest
import torch

import identiformer as idf
from identiformer.measures.maps import MAPS
from identiformer.measures.maps.output import gradients
from identiformer.models import load
from identiformer.passage import Passage
from identiformer.texts import Example
from tests.measures.maps.tiny import TEXT, tiny_subject
from tests.models.families import ENCODER_DECODERS, OUTSIDE_THE_INTERFACE, build, word_tokenizer

MODELS = [("bert", ""), ("bert", "SequenceClassification"), ("llama", "CausalLM"), ("gpt2", "CausalLM"), ("llama", "")]
BLOCKS = {"bert": "encoder.layer", "llama": "layers", "gpt2": "h", "xlnet": "layer", "bloom": "h", "t5": "encoder.block"}


def value_at(passage, vectors):
    """The target with other vectors in front of the first block, by a hook of our own."""
    network = passage.model.network if passage.target.direction is None else passage.model.backbone
    if passage.model.backbone.config.is_encoder_decoder:
        network = passage.model.backbone.encoder
    first = passage.model.backbone.get_submodule(f"{BLOCKS[passage.model.backbone.config.model_type]}.0")
    hook = first.register_forward_pre_hook(lambda _, arguments: (vectors.view_as(arguments[0]), *arguments[1:]))
    with torch.no_grad(), hook:
        return passage.target.value(network(**passage.batch.inputs)).item()


@pytest.mark.parametrize(("family", "task"), MODELS)
def test_gradient_times_input_is_the_slope_of_scaling_a_token(family, task):
    passage = tiny_subject(family, task)
    x = passage.target_function.x
    step = 1e-5 if family != "llama" else 3e-3  # Llama's norms compute in float32
    expected = []
    for position in range(len(x)):
        scale = torch.ones(len(x), 1, dtype=x.dtype)
        values = []
        for factor in (1 + step, 1 - step):
            scale[position] = factor
            values.append(value_at(passage, scale * x))
        expected.append((values[0] - values[1]) / (2 * step))
    np.testing.assert_allclose(MAPS["gradient_times_input"].compute(passage), expected, atol=1e-6 if family != "llama" else 1e-3)


@pytest.mark.parametrize(("family", "task"), MODELS)
def test_integrated_gradients_sum_to_the_change_of_the_output(family, task):
    passage = tiny_subject(family, task)
    attributions = MAPS["integrated_gradients"].compute(passage)
    network = passage.model.network if passage.target.direction is None else passage.model.backbone
    inputs = {name: tensor.clone() for name, tensor in passage.batch.inputs.items()}
    inputs["input_ids"][0, 1:7] = word_tokenizer().unk_token_id  # the placeholder of a tokenizer without a mask token
    with torch.no_grad():
        baseline = passage.target.value(network(**inputs)).item()
    assert attributions.sum().item() == pytest.approx(passage.target.unchanged - baseline, rel=0.02, abs=1e-3)
    assert not attributions[[0, 7]].any()  # special tokens stay
    assert (attributions[1:7] != 0).all()


def test_integrated_gradients_warn_where_the_path_is_rough(monkeypatch):
    monkeypatch.setattr(gradients, "STEPS", 2)
    with pytest.warns(UserWarning, match="2 steps only approximate"):
        MAPS["integrated_gradients"].compute(tiny_subject("llama", "CausalLM"))


@pytest.mark.parametrize(("family", "task"), [("bert", ""), ("llama", "CausalLM")])
def test_token_attribution_is_that_of_the_last_layer(family, task):
    passage = tiny_subject(family, task)
    layers = idf.token_attribution(passage.model, TEXT).contribution.values
    rows = slice(1, 7) if family == "bert" else slice(7, 8)
    np.testing.assert_allclose(MAPS["token_attribution_last"].compute(passage), layers[-1][rows].mean(0), rtol=1e-6)


@pytest.mark.parametrize(("family", "task"), MODELS)
def test_leave_one_out_is_the_drop_without_the_token(family, task):
    passage = tiny_subject(family, task)
    drops = MAPS["leave_one_out"].compute(passage)
    network = passage.model.network if passage.target.direction is None else passage.model.backbone
    for position in range(8):
        inputs = {name: tensor.clone() for name, tensor in passage.batch.inputs.items()}
        inputs["input_ids"][0, position] = word_tokenizer().unk_token_id
        with torch.no_grad():
            value = passage.target.value(network(**inputs)).item()
        assert drops[position].item() == pytest.approx(passage.target.unchanged - value, abs=1e-9)


FAMILIES = {"xlnet": OUTSIDE_THE_INTERFACE, "bloom": OUTSIDE_THE_INTERFACE, "t5": ENCODER_DECODERS}


@pytest.fixture(scope="module", params=FAMILIES)
def other(request):
    network = build(request.param, FAMILIES[request.param][request.param]).double()
    return Passage.of(load(network, word_tokenizer()), Example(TEXT, None))


def reader_of(passage):
    """The network as a function of one text: of T5 its encoder."""
    network = passage.model.backbone
    return network.encoder if network.config.is_encoder_decoder else network


def test_other_families_are_explained_by_slopes(other):
    x, slopes = other.target_function.x, []
    exact = not other.model.backbone.config.is_encoder_decoder  # T5's norms compute in float32
    step = 1e-5 if exact else 3e-3
    for position in range(len(x)):
        change = torch.zeros_like(x)
        change[position] = step * x[position]
        slopes.append((value_at(other, x + change) - value_at(other, x - change)) / (2 * step))
    scores = MAPS["gradient_times_input"].compute(other)
    np.testing.assert_allclose(scores, slopes, rtol=1e-3, atol=1e-6 if exact else 1e-3)
    assert scores.abs().max() > 1e-4


def test_other_families_are_explained_by_removed_words(other):
    removed = []
    for gone in (*range(8), slice(1, 7)):
        inputs = {name: tensor.clone() for name, tensor in other.batch.inputs.items()}
        inputs["input_ids"][0, gone] = word_tokenizer().unk_token_id
        with torch.no_grad():
            removed.append(other.target.unchanged - other.target.value(reader_of(other)(**inputs)).item())
    np.testing.assert_allclose(MAPS["leave_one_out"].compute(other), removed[:8], atol=1e-6)
    attributions = MAPS["integrated_gradients"].compute(other)
    assert attributions.sum().item() == pytest.approx(removed[8], rel=0.02, abs=1e-5)
    assert not attributions[[0, 7]].any()  # special tokens stay
    assert (attributions[1:7] != 0).all()


def test_other_families_are_explained_by_the_gradients_of_their_softmax(other, monkeypatch):
    network, weights, softmax = copy.deepcopy(reader_of(other)), [], torch.nn.functional.softmax
    network.set_attn_implementation("eager")
    monkeypatch.setattr(
        torch.nn.functional, "softmax", lambda *args, **named: weights.append(softmax(*args, **named)) or weights[-1]
    )
    value = other.target.value(network(**other.batch.inputs))
    monkeypatch.undo()
    relevance = torch.eye(8, dtype=torch.float64)
    for attention, gradient in zip(weights, torch.autograd.grad(value, weights), strict=True):
        relevance = relevance + (attention * gradient)[0].relu().mean(0).detach().double() @ relevance
    expected = (relevance - torch.eye(8))[list(other.target.positions)].mean(0)
    assert len(weights) == 2
    assert expected.max() > 1e-6
    torch.testing.assert_close(MAPS["gradient_attention"].compute(other), expected, rtol=1e-3, atol=1e-8)
