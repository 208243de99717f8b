"""Ablated heads, against the output projection with the head's rows set to zero."""

import pytest
import torch

from identiformer.errors import InputError
from identiformer.models import load
from identiformer.models.interventions.head_ablation import outputs_without_heads
from tests.models.families import ENCODER_DECODERS, SERVED, build, word_tokenizer, words


def test_an_ablated_head_writes_nothing():
    model = load(build("llama", SERVED["llama"]), tokenizer=word_tokenizer())
    batch = model.encode(words(8), None, False)
    ablations = [(), {(1, 2)}, {(2, 0), (2, 3)}]
    found = outputs_without_heads(model, batch, ablations)
    for states, ablation in zip(found, ablations, strict=True):
        other = build("llama", SERVED["llama"])  # the same weights
        with torch.no_grad():
            for layer, head in ablation:
                other.layers[layer - 1].self_attn.o_proj.weight[:, head * 8 : head * 8 + 8] = 0
            expected = other(**batch.inputs).last_hidden_state[0]
        torch.testing.assert_close(states, expected, atol=1e-5, rtol=1e-4)
    assert not torch.allclose(found[0], found[1])


def test_heads_that_do_not_exist_are_rejected():
    model = load(build("bert", SERVED["bert"]), tokenizer=word_tokenizer())
    batch = model.encode(words(3), None, False)
    for head in ((0, 1), (3, 0), (1, 4), (1, -1)):
        with pytest.raises(InputError, match="expected layers from 1 to 2 and heads from 0 to 3"):
            outputs_without_heads(model, batch, [{head}])
    with pytest.raises(InputError, match="expected one text"):
        outputs_without_heads(model, model.encode([words(3), words(4)], None, False), [()])
    family = next(iter(ENCODER_DECODERS))
    other = load(build(family, ENCODER_DECODERS[family]), tokenizer=word_tokenizer())
    with pytest.raises(InputError, match="encoder-decoder"):
        outputs_without_heads(other, other.encode(words(3), words(2), False), [()])
