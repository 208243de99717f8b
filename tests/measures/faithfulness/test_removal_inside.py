"""Yardsticks of removal inside the model, on maps whose score is known."""

import pytest
import torch

import identiformer as idf
from identiformer.measures.faithfulness import YARDSTICKS
from identiformer.measures.faithfulness.removal_inside import REMOVAL_INSIDE
from identiformer.passage import Passage
from identiformer.texts import Example
from tests.models.families import word_tokenizer, words
from tests.models.perturbed import network_of

CHEAP = [yardstick.name for yardstick in REMOVAL_INSIDE if yardstick.cheap]


@pytest.fixture(scope="module")
def passage(minilm):
    return Passage.of(minilm, Example("The islanders wrote to the minister, and the minister wrote back.", "They agreed."))


@pytest.mark.parametrize("name", CHEAP)
def test_the_effects_themselves_score_one_and_noise_scores_nothing(passage, name):
    yardstick = YARDSTICKS[name]
    truth = yardstick.truth(passage)
    noise = torch.rand(truth.size.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    for score in (yardstick.score, *yardstick.other_scores.values()):
        torch.testing.assert_close(score(truth, truth.size), torch.ones(6, dtype=torch.float64))
        assert float(score(truth, noise).mean().abs()) < 0.06
    assert float(yardstick.score(truth, -truth.size).min()) > 0.999  # ranked by absolute value
    assert float(yardstick.other_scores["signed"](truth, -truth.size).max()) < -0.999


@pytest.mark.parametrize("name", CHEAP)
def test_scores_of_uncounted_pairs_are_ignored(passage, name):
    truth = YARDSTICKS[name].truth(passage)
    scores = truth.size.masked_fill(~truth.counted, 1e3)
    torch.testing.assert_close(YARDSTICKS[name].score(truth, scores), torch.ones(6, dtype=torch.float64))
    assert bool(truth.counted[..., 0].any()) != name.endswith("_words")  # [CLS]
    assert bool(truth.counted.diagonal(dim1=1, dim2=2).any()) != name.endswith("_others")


def test_norm_based_attention_is_exact_for_the_output_of_a_single_head():
    model = idf.load(network_of("bert", num_attention_heads=1), word_tokenizer())
    one_head = Passage.of(model, Example(words(7)))
    norms = [
        layer.weights[0].double() * (layer.values[0].double() @ layer.projection[0].double()).norm(dim=-1)
        for layer in one_head.layers
    ]
    score = YARDSTICKS["value_zeroing_head"].score(YARDSTICKS["value_zeroing_head"].truth(one_head), torch.stack(norms))
    torch.testing.assert_close(score, torch.ones_like(score))


def test_zeroing_values_and_renormalizing_weights_are_different_truths(passage):
    """[CLS] is a sink of MiniLM: little changes without its value, much if its weight goes to the other keys."""
    zeroed, renormalized = (YARDSTICKS[name].truth(passage).size for name in ("value_zeroing", "edge_knockout_renormalized"))
    assert float(zeroed[3:, 1:, 0].mean()) < float(zeroed[3:, 1:].mean())
    assert float(renormalized[3:, 1:, 0].mean()) > 3 * float(renormalized[3:, 1:].mean())


def test_causal_rows_count_only_what_they_see():
    causal = Passage.of(idf.load(network_of("llama"), word_tokenizer()), Example(words(6)))
    truth = YARDSTICKS["edge_knockout_renormalized_head"].truth(causal)
    assert not truth.counted.triu(1).any()
    assert not truth.counted[:, 0].any()  # the first token is all of its row
