"""Removed tokens, against the model run on a text that was changed by hand."""

import pytest
import torch

from identiformer.errors import InputError, UnsupportedModelError
from identiformer.models import load
from identiformer.models.interventions.input_removal import outputs_without, placeholder
from identiformer.models.interventions.random_weights import with_random_weights
from tests.models.families import OUTSIDE_THE_INTERFACE, SERVED, build, word_tokenizer

TEXT = "w0 w1 w2 w3 w4 w5"


def model_of(family):
    return load(build(family, (SERVED | OUTSIDE_THE_INTERFACE)[family]), tokenizer=word_tokenizer())


def last_states(model, text, kind, removed, seed=0, pool=()):
    """The last hidden states of each copy at the positions that are left, by the function under test."""
    batch = model.encode(text, None, False)
    states = [torch.empty(0)] * len(removed)
    for copies, result, positions in outputs_without(model, model.replica(), batch, removed, kind, seed, pool):
        for copy, output, left in zip(copies, result.last_hidden_state, positions, strict=True):
            states[copy] = output[left >= 0]
    return states


def removing(model, text, *sets):
    removed = torch.zeros(len(sets), model.length(text), dtype=torch.bool)
    for row, positions in enumerate(sets):
        removed[row, list(positions)] = True
    return removed


def expected(model, text):
    return model.forward(model.replica(), model.encode(text, None, False).inputs).last_hidden_state[0].detach()


@pytest.mark.parametrize("family", ["bert", "llama", "gpt2", "convbert"])
def test_a_deleted_word_is_as_if_it_had_never_been_written(family):
    model = model_of(family)
    first = next(position for position, special in enumerate(model.tokens(TEXT).special) if not special)
    sets = [{first + 1}, {first, first + 4, first + 5}, set()]
    texts = ["w0 w2 w3 w4 w5", "w1 w2 w3", TEXT]
    for states, text in zip(last_states(model, TEXT, "delete", removing(model, TEXT, *sets)), texts, strict=True):
        torch.testing.assert_close(states, expected(model, text), atol=1e-5, rtol=1e-4)


def test_masked_words_and_resampled_words_are_those_of_another_text(minilm):
    text = "the boat left the island ."
    masked, unchanged = last_states(minilm, text, "mask", removing(minilm, text, {2, 5}, ()))
    torch.testing.assert_close(masked, expected(minilm, "the [MASK] left the [MASK] ."), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(unchanged, expected(minilm, text), atol=1e-5, rtol=1e-4)
    for seed in range(3):
        (states,) = last_states(minilm, text, "resample", removing(minilm, text, {2}), seed)
        others = [expected(minilm, text.replace("boat", word)) for word in ("the", "left", "island", ".")]
        assert min(float((states - other).abs().max()) for other in others) < 1e-4


def test_resampled_words_come_from_the_pool(minilm):
    text, pool = "the boat left the island .", minilm.tokens("river boat").regular_ids
    for seed in range(3):
        (states,) = last_states(minilm, text, "resample", removing(minilm, text, {2, 5}), seed, pool)
        # "boat" is in the pool too, but a word is never replaced by itself
        others = [expected(minilm, f"the river left the {word} .") for word in ("river", "boat")]
        assert min(float((states - other).abs().max()) for other in others) < 1e-4


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_the_mean_embedding_is_the_mean_of_the_table(family):
    model = model_of(family)
    removed = removing(model, TEXT, {2, 3})
    (states,) = last_states(model, TEXT, "mean_embedding", removed)
    table = model.network.get_input_embeddings().weight.detach()
    inputs = dict(model.encode(TEXT, None, False).inputs)
    vectors = table[inputs.pop("input_ids")]
    vectors[0, [2, 3]] = table.double().mean(0).float()
    by_hand = model.network(inputs_embeds=vectors, attention_mask=inputs["attention_mask"]).last_hidden_state[0]
    torch.testing.assert_close(states, by_hand.detach(), atol=1e-5, rtol=1e-4)
    assert not model.network.get_input_embeddings()._forward_hooks


def test_nothing_is_left_but_a_placeholder():
    model = model_of("gpt2")
    everything = torch.ones(1, model.length(TEXT), dtype=torch.bool)
    (states,) = last_states(model, TEXT, "delete", everything)
    assert len(states) == 1
    inputs = {"input_ids": torch.tensor([[placeholder(model)]]), "attention_mask": torch.ones(1, 1, dtype=torch.long)}
    torch.testing.assert_close(states, model.network(**inputs).last_hidden_state[0].detach())


def test_removals_of_another_text_and_tokenizers_without_a_placeholder_are_rejected():
    model = model_of("bert")
    with pytest.raises(InputError, match="removals of"):
        last_states(model, TEXT, "mask", torch.ones(1, 2, dtype=torch.bool))

    class Bare:
        mask_token_id = None

    model.tokenizer = Bare()
    with pytest.raises(UnsupportedModelError, match="token for mask"):
        placeholder(model)


def test_random_weights_are_the_same_numbers_in_another_order_and_leave_the_network_alone():
    model = model_of("gpt2")
    before = {name: weight.clone() for name, weight in model.network.state_dict().items()}
    others = [with_random_weights(model, seed) for seed in (0, 1)]
    assert with_random_weights(model, 0) is others[0]
    for name, weight in model.network.state_dict().items():
        torch.testing.assert_close(weight, before[name], rtol=0, atol=0)
        shuffled = [other.network.state_dict()[name] for other in others]
        for each in shuffled:
            torch.testing.assert_close(each.flatten().sort().values, weight.flatten().sort().values, rtol=0, atol=0)
        if weight.ndim == 2:
            assert not torch.equal(shuffled[0], weight)
            assert not torch.equal(shuffled[0], shuffled[1])
