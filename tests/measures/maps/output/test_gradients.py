"""Explanations by derivatives, against finite differences and the laws that they obey."""

import itertools

import numpy as np
import pytest
import torch

import identiformer as idf
from identiformer.measures.maps import MAPS
from identiformer.measures.maps.output import gradients
from identiformer.measures.maps.subject import Subject
from identiformer.models import load
from identiformer.texts import Example
from tests.measures.maps.tiny import TEXT, tiny_subject
from tests.models.families import ENCODER_DECODERS, OUTSIDE_THE_INTERFACE, build, word_tokenizer

MODELS = [("bert", ""), ("bert", "SequenceClassification"), ("llama", "CausalLM"), ("gpt2", "CausalLM"), ("llama", "")]


def value_at(subject, vectors):
    """The target with other vectors in front of the first block, by a hook of our own."""
    network = subject.model.network if subject.target.direction is None else subject.model.backbone
    blocks = {"bert": "encoder.layer", "llama": "layers", "gpt2": "h"}[subject.model.backbone.config.model_type]
    first = subject.model.backbone.get_submodule(f"{blocks}.0")
    hook = first.register_forward_pre_hook(lambda _, arguments: (vectors[None], *arguments[1:]))
    with torch.no_grad(), hook:
        return subject.target.value(network(**subject.batch.inputs)).item()


@pytest.mark.parametrize(("family", "task"), MODELS)
def test_gradient_times_input_is_the_slope_of_scaling_a_token(family, task):
    subject = tiny_subject(family, task)
    x = subject.input_function.x
    step = 1e-5 if family != "llama" else 3e-3  # Llama's norms compute in float32
    expected = []
    for position in range(len(x)):
        scale = torch.ones(len(x), 1, dtype=x.dtype)
        values = []
        for factor in (1 + step, 1 - step):
            scale[position] = factor
            values.append(value_at(subject, scale * x))
        expected.append((values[0] - values[1]) / (2 * step))
    np.testing.assert_allclose(MAPS["gradient_times_input"].compute(subject), expected, atol=1e-6 if family != "llama" else 1e-3)


@pytest.mark.parametrize(("family", "task"), MODELS)
def test_integrated_gradients_sum_to_the_change_of_the_output(family, task):
    subject = tiny_subject(family, task)
    attributions = MAPS["integrated_gradients"].compute(subject)
    network = subject.model.network if subject.target.direction is None else subject.model.backbone
    inputs = {name: tensor.clone() for name, tensor in subject.batch.inputs.items()}
    inputs["input_ids"][0, 1:7] = word_tokenizer().unk_token_id  # the placeholder of a tokenizer without a mask token
    with torch.no_grad():
        baseline = subject.target.value(network(**inputs)).item()
    assert attributions.sum().item() == pytest.approx(subject.target.unchanged - baseline, rel=0.02, abs=1e-3)
    assert not attributions[[0, 7]].any()  # special tokens stay
    assert (attributions[1:7] != 0).all()


def test_integrated_gradients_warn_where_the_path_is_rough(monkeypatch):
    monkeypatch.setattr(gradients, "STEPS", 2)
    with pytest.warns(UserWarning, match="2 steps only approximate"):
        MAPS["integrated_gradients"].compute(tiny_subject("llama", "CausalLM"))


@pytest.mark.parametrize(("family", "task"), [("bert", ""), ("llama", "CausalLM")])
def test_token_attribution_is_that_of_the_last_layer(family, task):
    subject = tiny_subject(family, task)
    layers = idf.token_attribution(subject.model, TEXT).contribution.values
    rows = slice(1, 7) if family == "bert" else slice(7, 8)
    np.testing.assert_allclose(MAPS["token_attribution_last"].compute(subject), layers[-1][rows].mean(0), rtol=1e-6)


@pytest.mark.parametrize(("family", "task"), MODELS)
def test_leave_one_out_is_the_drop_without_the_token(family, task):
    subject = tiny_subject(family, task)
    drops = MAPS["leave_one_out"].compute(subject)
    network = subject.model.network if subject.target.direction is None else subject.model.backbone
    for position in range(8):
        inputs = {name: tensor.clone() for name, tensor in subject.batch.inputs.items()}
        inputs["input_ids"][0, position] = word_tokenizer().unk_token_id
        with torch.no_grad():
            value = subject.target.value(network(**inputs)).item()
        assert drops[position].item() == pytest.approx(subject.target.unchanged - value, abs=1e-9)


DERIVED = ("gradient_times_input", "integrated_gradients", "gradient_attention", "leave_one_out")


FAMILIES = {"xlnet": OUTSIDE_THE_INTERFACE, "bloom": OUTSIDE_THE_INTERFACE, "t5": ENCODER_DECODERS}


@pytest.mark.parametrize(("family", "name"), [*itertools.product(FAMILIES, DERIVED)])
def test_other_families_are_explained_too(family, name):
    subject = Subject(load(build(family, FAMILIES[family][family]), word_tokenizer()), Example(TEXT, None))
    scores = MAPS[name].compute(subject)
    assert scores.shape == (8,)
    assert scores.isfinite().all()
    assert scores.any()
