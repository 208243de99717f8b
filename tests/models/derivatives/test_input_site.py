"""The input vectors x: where they are, that identifiability and attribution mean the same ones, and what is rejected."""

import numpy as np
import pytest
import torch

import identiformer as idf
from identiformer.errors import InputError, UnsupportedModelError
from identiformer.models.hidden_states.recording import hidden_states
from identiformer.support.tiny_models import tiny_model, tiny_tokenizer, tiny_words
from identiformer.texts import Example
from tests.models.families import ENCODER_DECODERS, SERVED, build, word_tokenizer, words

EVERY = {**SERVED, **ENCODER_DECODERS}


def model_of(family: str) -> idf.Model:
    return idf.load(build(family, EVERY[family]), word_tokenizer())


def function_of(family: str, input_site: str = "before"):
    return model_of(family).input_function(words(7), input_site=input_site)[0]


def test_x_is_the_sum_of_the_embeddings_before_or_after_their_norm():
    with_norm, without = function_of("bert"), function_of("llama")
    embeddings, ids = with_norm.network.embeddings, with_norm.inputs["input_ids"]
    assert with_norm.site is embeddings.LayerNorm
    summed = (
        embeddings.word_embeddings(ids)
        + embeddings.position_embeddings(torch.arange(ids.shape[1]))
        + embeddings.token_type_embeddings(torch.zeros_like(ids))
    )
    torch.testing.assert_close(with_norm.x, summed[0])
    torch.testing.assert_close(function_of("bert", "after").x, embeddings.LayerNorm(summed)[0])
    torch.testing.assert_close(without.x, without.network.embed_tokens(without.inputs["input_ids"])[0])
    assert function_of("albert").x.shape[1] == 16
    with pytest.raises(InputError, match="input site of before, after, got 'between'"):
        function_of("bert", "between")


OTHERS = {
    "zamba": "the embeddings are fed to later layers again",
    "zamba2": "the embeddings are fed to later layers again",
    "gemma4_text": "each layer is fed vectors computed from the embeddings",
    "mobilebert": "the embeddings are mapped, and then scaled instead of normalized",
    "modernbert": "no positions in the embeddings, but a norm",
    "xlnet": "positions are the first axis",
    "jamba": "the first block does not attend",
}


@pytest.mark.parametrize("family", [*EVERY, *OTHERS])
def test_identifiability_and_attribution_have_the_same_x(family):
    model = model_of(family) if family in EVERY else idf.load(tiny_model(family), tiny_tokenizer())
    text = words(6) if family in EVERY else tiny_words(6)
    with hidden_states(model, [Example(text)], None) as states:
        np.testing.assert_array_equal(states.inputs, model.input_function(text)[0].x)


@pytest.mark.parametrize("family", ["zamba", "gemma4_text"])
def test_embeddings_that_bypass_the_first_block_count_as_input(family):
    """x is what the tokens are looked up as and what enters the first block; only changes are made at the embedding."""
    network = tiny_model(family)
    function = idf.load(network, tiny_tokenizer()).input_function(tiny_words(6))[0]
    entered = []
    network.layers[0].register_forward_pre_hook(
        lambda _, arguments, named: entered.append(arguments[0] if arguments else named["hidden_states"]), with_kwargs=True
    )
    with torch.no_grad():
        network(function.inputs["input_ids"])
        looked_up = network.get_input_embeddings()(function.inputs["input_ids"])
    torch.testing.assert_close(function.x, looked_up[0], rtol=0, atol=0)
    torch.testing.assert_close(function.x, entered[0][0], rtol=0, atol=0)
    assert function.at_output


NORMED = {
    "mobilebert": "the embeddings are mapped before they are scaled",
    "roc_bert": "the embeddings are mapped before they are normalized",
    "markuplm": "some of the embeddings are mapped before all are summed",
    "longformer": "texts are padded to a multiple of the window",
    "roberta-prelayernorm": "the encoder has a norm in its name",
}


@pytest.mark.parametrize("family", NORMED)
def test_x_is_taken_before_the_norm_of_the_embeddings(family):
    network = tiny_model(family)
    with hidden_states(idf.load(network, tiny_tokenizer()), [Example(tiny_words(6))], None) as states:
        x, ids = torch.tensor(states.inputs), torch.tensor(states.ids[None])
    with torch.no_grad():
        normed = network(ids, output_hidden_states=True).hidden_states[0][0]
        torch.testing.assert_close(network.embeddings.LayerNorm(x), normed)
    assert not torch.allclose(x, normed)


def test_hidden_states_that_are_not_finite_are_rejected_with_their_layer():
    model = model_of("bert")
    with torch.no_grad():
        model.network.encoder.layer[1].output.dense.bias[0] = torch.nan
    with pytest.raises(InputError, match="layer 2"):
        model.input_function(words(7))


def test_half_precision_is_raised_to_float32():
    network = build("bert", EVERY["bert"]).bfloat16()
    model = idf.load(network, word_tokenizer())
    assert model.input_function(words(7))[0].x.dtype == torch.float32
    assert {parameter.dtype for parameter in network.parameters()} == {torch.bfloat16}


def test_an_encoder_decoder_with_a_pair_is_rejected():
    with pytest.raises(UnsupportedModelError, match="encoder only"):
        model_of("t5").input_function(words(7), words(5))


def test_a_model_without_numbered_layers_is_rejected():
    model = model_of("bert")
    model.trace(words(7))
    model._sites[False][0].path = "attention"
    with pytest.raises(UnsupportedModelError, match="cannot be attributed"):
        model.input_function(words(7))
