"""Gradient times input against gradients through `inputs_embeds` and against finite differences."""

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification

import identiformer as idf
from identiformer.errors import InputError, UnsupportedModelError
from tests.models.families import ENCODER_DECODERS, SERVED, build, word_tokenizer, words

TEXT = words(6)


@pytest.fixture
def classifier():
    torch.manual_seed(1)
    return AutoModelForSequenceClassification.from_config(AutoConfig.for_model("bert", **SERVED["bert"], num_labels=3)).eval()


def test_attribution_is_the_gradient_of_a_logit_times_the_summed_embeddings(classifier):
    actual = idf.gradient_times_input(idf.load(classifier, word_tokenizer()), TEXT, output=1, input_site="before")
    ids = torch.tensor([word_tokenizer()(TEXT)["input_ids"]])
    embeddings = classifier.bert.embeddings
    words_in = embeddings.word_embeddings(ids).detach().requires_grad_()
    logits = classifier(inputs_embeds=words_in).logits
    (gradient,) = torch.autograd.grad(logits[0, 1], words_in)
    summed = words_in + embeddings.position_embeddings.weight[: ids.shape[1]] + embeddings.token_type_embeddings.weight[0]
    np.testing.assert_allclose(actual.attribution, (summed * gradient)[0].sum(-1).detach(), rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(actual.gradient_norm, gradient[0].norm(dim=-1), rtol=1e-4)
    assert float(actual.value) == pytest.approx(float(logits[0, 1].detach()), rel=1e-5)
    assert actual.attrs["measure"] == "gradient_times_input"


def test_the_default_input_is_that_of_the_first_block(classifier):
    actual = idf.gradient_times_input(idf.load(classifier, word_tokenizer()), TEXT, output=1)
    ids = torch.tensor([word_tokenizer()(TEXT)["input_ids"]])
    states: list = []
    hook = classifier.bert.embeddings.register_forward_hook(
        lambda *call: states.append(call[2].detach().requires_grad_()) or states[0]
    )
    (gradient,) = torch.autograd.grad(classifier(input_ids=ids).logits[0, 1], states)
    hook.remove()
    np.testing.assert_allclose(actual.attribution, (states[0] * gradient)[0].sum(-1).detach(), rtol=1e-4, atol=1e-7)


def test_no_output_changes_along_vectors_that_a_norm_rescales(classifier):
    model = idf.load(classifier, word_tokenizer())
    sizes = [float(abs(idf.gradient_times_input(model, TEXT, input_site=site).attribution).max()) for site in ("before", "after")]
    assert sizes[0] < 1e-3 * sizes[1]


def test_the_default_output_is_the_largest_logit_and_a_function_may_choose_another(classifier):
    model = idf.load(classifier, word_tokenizer())
    largest = idf.gradient_times_input(model, TEXT)
    results = [idf.gradient_times_input(model, TEXT, output=number) for number in range(3)]
    assert float(largest.value) == max(float(result.value) for result in results)
    margin = idf.gradient_times_input(model, TEXT, output=lambda result: result.logits[0, 2] - result.logits[0, 0])
    np.testing.assert_allclose(margin.attribution, results[2].attribution - results[0].attribution, rtol=1e-3, atol=1e-7)


def test_a_language_model_is_explained_at_its_last_position():
    torch.manual_seed(1)
    network = AutoModelForCausalLM.from_config(AutoConfig.for_model("gpt2", **SERVED["gpt2"])).eval().double()
    actual = idf.gradient_times_input(idf.load(network, word_tokenizer()), TEXT, output=5)
    ids = torch.tensor([word_tokenizer()(TEXT)["input_ids"]])
    summed = network.transformer.wte(ids) + network.transformer.wpe.weight[: ids.shape[1]]
    step = 1e-5
    with torch.no_grad():
        for position in range(ids.shape[1]):
            values = []
            for sign in (1, -1):
                words_in = network.transformer.wte(ids)
                words_in[0, position] += sign * step * summed[0, position]
                values.append(float(network(inputs_embeds=words_in).logits[0, -1, 5]))
            difference = (values[0] - values[1]) / (2 * step)
            assert float(actual.attribution[position]) == pytest.approx(difference, rel=1e-5, abs=1e-8)


def test_bad_input(classifier):
    model = idf.load(classifier, word_tokenizer())
    with pytest.raises(InputError, match="from 0 to 2, got 3"):
        idf.gradient_times_input(model, TEXT, output=3)
    with pytest.raises(InputError, match="one number"):
        idf.gradient_times_input(model, TEXT, output=lambda result: result.logits)
    with pytest.raises(InputError, match="task head"):
        idf.gradient_times_input(idf.load(build("bert", SERVED["bert"]), word_tokenizer()), TEXT)
    with pytest.raises(UnsupportedModelError, match="encoder-decoder"):
        idf.gradient_times_input(idf.load(build("t5", ENCODER_DECODERS["t5"]), word_tokenizer()), TEXT)
    assert all(parameter.grad is None for parameter in classifier.parameters())


def test_an_output_that_does_not_depend_on_the_input_is_rejected(classifier):
    torch.nn.init.zeros_(classifier.classifier.weight)
    with pytest.raises(InputError, match="expected an output that depends on the input, got one whose gradient is zero"):
        idf.gradient_times_input(idf.load(classifier, word_tokenizer()), TEXT)
