"""Models whose attention cannot be recorded are rejected with the reason."""

import pytest

from identiformer.errors import UnsupportedModelError
from identiformer.models import load
from identiformer.support.tiny_models import tiny_model
from tests.models.families import ENCODER_DECODERS, SERVED, UNSUPPORTED, build, word_tokenizer, words

TOKENIZER = word_tokenizer()


@pytest.mark.parametrize("family", UNSUPPORTED)
def test_attention_that_cannot_be_recorded_is_rejected_by_name(family):
    settings, reason = UNSUPPORTED[family]
    model = load(build(family, settings), TOKENIZER)
    with pytest.raises(UnsupportedModelError, match=reason):
        model.trace(words(6))


def test_a_family_whose_eager_attention_differs_is_rejected():
    network = tiny_model("paligemma")
    with pytest.raises(UnsupportedModelError, match=r"with eager attention.*paligemma.*attn_implementation='eager'"):
        load(network, TOKENIZER).trace(words(6))
    network.set_attn_implementation("eager")
    assert load(network, TOKENIZER).trace(words(6)).layer(1).weights.shape == (4, 8, 8)


@pytest.mark.parametrize("family", ENCODER_DECODERS)
def test_an_encoder_decoder_has_three_attention_types(family):
    model = load(build(family, ENCODER_DECODERS[family]), TOKENIZER)
    trace = model.trace(words(9), words(5, 3))
    assert {stack.kind for stack in trace.stacks} == {"encoder", "decoder", "cross"}
    assert (len(trace.stack("cross").queries), len(trace.stack("cross").keys)) == (7, 11)
    assert [stack.kind for stack in model.trace(words(9)).stacks] == ["encoder"]


def test_the_learned_sink_of_gpt_oss_is_recorded():
    assert load(build("gpt_oss", SERVED["gpt_oss"]), TOKENIZER).trace(words(6)).layer(1).sink
