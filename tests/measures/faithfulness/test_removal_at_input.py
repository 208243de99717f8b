"""Words removed at the input: a linear model, in which the right ranking is known, and tiny networks."""

from itertools import permutations

import numpy as np
import pytest
import torch

from identiformer.measures.faithfulness import YARDSTICKS
from identiformer.measures.faithfulness.removal_at_input import Words, comprehensiveness, deletion, insertion, sufficiency
from identiformer.models import load
from identiformer.models.interventions.input_removal import KINDS
from identiformer.passage import Passage
from identiformer.texts import Example
from tests.measures.maps.tiny import tiny_network, tiny_subject
from tests.models.families import word_tokenizer

WEIGHTS = torch.tensor([0.5, -2.0, 3.0, 1.0, -0.25]).double()
MEASURES = (comprehensiveness, sufficiency, deletion, insertion)


def linear():
    """A model that adds up one weight per word: leaving a word out changes its output by exactly its weight."""
    return Words(tuple((index,) for index in range(5)), lambda removed: (~removed).double() @ WEIGHTS)


@pytest.mark.parametrize("measure", MEASURES)
def test_in_a_linear_model_leave_one_out_is_the_best_of_all_rankings_and_random_ones_are_at_chance(measure):
    words = linear()
    scores = torch.tensor([float(measure(words, torch.tensor(order).double())) for order in permutations(range(5))])
    assert float(measure(words, WEIGHTS)) == pytest.approx(float(scores.max()), abs=1e-6)
    assert float(measure(words, -WEIGHTS)) == pytest.approx(float(scores.min()), abs=1e-6)
    # With k of 5 words removed at random, the output falls by k/5 of the sum of the weights on average.
    shares = {"comprehensiveness": (1 + 1 + 1 + 1 + 2) / 25, "sufficiency": -1 + (1 + 1 + 1 + 1 + 2) / 25}
    chance = float(WEIGHTS.sum()) * shares.get(measure.__name__, 0.5)
    assert float(scores.mean()) == pytest.approx(chance, abs=1e-6)


def test_pieces_of_a_word_are_removed_together_and_each_set_runs_once():
    runs = []

    def run(removed):
        runs.append(len(removed))
        return removed.double().sum(-1)

    words = Words(((1,), (2, 3)), run)
    torch.testing.assert_close(words.scores(torch.tensor([9.0, 1.0, 0.6, 0.6])), torch.tensor([1.0, 1.2]).double())
    for measure in MEASURES:
        measure(words, torch.tensor([1.0, 2.0]).double())
    assert sum(runs) == 4


def output_by_hand(passage, removed, kind, replacement=None):
    """The explained number, from a run of the network on a text whose removed words were changed by hand."""
    network, target = passage.model.network, passage.target
    ids = torch.tensor(passage.tokens.ids)
    gone = torch.tensor([False, *removed, False])  # between [CLS] and [SEP]
    words = torch.tensor([False, *[True] * len(removed), False])
    if kind == "delete":
        ids, words = ids[~gone], words[~gone]
    table = network.get_input_embeddings().weight
    vectors = table[ids]
    if kind != "delete":
        vectors[gone] = {
            "mask": table[word_tokenizer().unk_token_id],  # this tokenizer has no mask token
            "mean_embedding": table.mean(0),
            "resample": table[replacement],
        }[kind]
    result = network(inputs_embeds=vectors[None])
    if target.kind == "pooled":
        unchanged = network(torch.tensor([passage.tokens.ids])).last_hidden_state[0, 1:-1].mean(0)
        pooled = result.last_hidden_state[0, words if words.any() else ~words].mean(0)
        return float(pooled @ unchanged / unchanged.norm())
    logits = result.logits[0, -1] if target.kind == "token" else result.logits[0]
    return float(logits[target.index] - (0 if target.kind == "score" else logits.mean()))


def by_definition(passage, kind, scores):
    """The four measures of six words with these scores, as the papers define them."""
    order = np.argsort(-np.asarray(scores), kind="stable")

    def outputs(counts, only):
        return [output_by_hand(passage, np.isin(range(6), order[:count]) != only, kind) for count in counts]

    unchanged = output_by_hand(passage, [False] * 6, kind)
    few, steps = (1, 1, 1, 1, 3), (0, 1, 2, 4, 5, 6)  # of six words: at least one, and fifths
    removing, inserting = outputs(steps, False), outputs(steps, True)
    return {
        "comprehensiveness": unchanged - np.mean(outputs(few, False)),
        "sufficiency": np.mean(outputs(few, True)) - unchanged,
        "deletion": removing[0] - np.trapezoid(removing, dx=0.2),
        "insertion": np.trapezoid(inserting, dx=0.2) - inserting[0],
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("family", "task"), [("bert", "SequenceClassification"), ("llama", "CausalLM"), ("bert", "")])
def test_outputs_and_scores_are_those_of_texts_that_were_changed_by_hand(kind, family, task):
    passage = tiny_subject(family, task)
    words = YARDSTICKS[f"comprehensiveness_{kind}"].truth(passage)
    assert len(words.positions) == 6
    removed = torch.eye(6, dtype=torch.bool)
    assert float(words.values(removed[:1] & False)) == pytest.approx(passage.target.unchanged, rel=1e-6)
    together, ids = words.run(removed), passage.tokens.ids[1:-1]
    for own, word, value in zip(ids, removed.tolist(), together.tolist(), strict=True):
        others = sorted(set(ids) - {own}) if kind == "resample" else [None]
        possible = [output_by_hand(passage, word, kind, other) for other in others]
        assert any(value == pytest.approx(each, rel=1e-6) for each in possible)
    assert together.std() > 1e-6
    if kind == "resample":  # which words were drawn is not known here
        return
    importance = torch.rand(len(passage.tokens), dtype=torch.float64) - 0.5
    for name, expected in by_definition(passage, kind, importance[1:-1]).items():
        assert float(YARDSTICKS[f"{name}_{kind}"].judge(words, importance)) == pytest.approx(expected, rel=1e-6)
    absolute = YARDSTICKS[f"deletion_{kind}"].other_scores["absolute"](words, importance)
    assert float(absolute) == pytest.approx(by_definition(passage, kind, importance[1:-1].abs())["deletion"], rel=1e-6)


def test_a_deleted_word_of_a_language_model_moves_the_position_that_predicts():
    passage = tiny_subject("llama", "CausalLM")
    removed = torch.zeros(2, 6, dtype=torch.bool)
    removed[0, 2] = removed[1, 5] = True
    values = YARDSTICKS["deletion_delete"].truth(passage).values(removed)
    for value, text in zip(values, ("w3 w1 w1 w5 w9", "w3 w1 w4 w1 w5"), strict=True):
        logits = passage.model.network(**passage.model.encode(text, None, False).inputs).logits[0, -1]
        assert float(value) == pytest.approx(float(logits[passage.target.index] - logits.mean()), rel=1e-6)


def test_a_head_with_one_class_is_scored_by_its_only_output_and_a_text_without_words_not_at_all():
    passage = tiny_subject("bert", "SequenceClassification", num_labels=1)
    assert passage.target.kind == "score"
    yardstick, scores = YARDSTICKS["insertion_mask"], torch.arange(len(passage.tokens)).double()
    expected = by_definition(passage, "mask", scores[1:-1])["insertion"]
    assert float(yardstick.judge(yardstick.truth(passage), scores)) == pytest.approx(expected, rel=1e-6)
    assert yardstick.judge(Words((), linear().run), torch.ones(2).double()).isnan()


def test_all_explanations_lose_the_same_number_of_words():
    counts = []

    def run(removed):
        counts.extend(removed.sum(-1).tolist())
        return removed.double().sum(-1)

    for scores in (torch.tensor([1.0, 0, 0, 0, 0]), torch.rand(5), torch.ones(5)):
        comprehensiveness(Words(linear().positions, run), scores.double())
    assert counts[: len(counts) // 3] * 3 == counts


def test_the_network_is_left_alone():
    network = tiny_network("bert", "SequenceClassification")
    before = {name: weight.clone() for name, weight in network.state_dict().items()}
    passage = Passage.of(load(network, word_tokenizer()), Example("w1 w2 w3"))
    for kind in KINDS:
        yardstick = YARDSTICKS[f"deletion_{kind}"]
        yardstick.judge(yardstick.truth(passage), torch.rand(5).double())
    assert all(torch.equal(weight, before[name]) for name, weight in network.state_dict().items())
    assert not any(module._forward_hooks for module in network.modules())


def test_words_that_speak_against_the_output_are_removed_last():
    """A model whose output is a sum over words: an explanation with its signs is exact, and its absolute value is not."""
    weights = torch.tensor([3.0, -4.0, 1.0, 2.0, -1.0], dtype=torch.float64)
    words = Words(tuple((position,) for position in range(5)), lambda removed: (~removed).double() @ weights)
    yardstick = YARDSTICKS["comprehensiveness_mask"]
    exact, absolute = yardstick.judge(words, weights), yardstick.other_scores["absolute"](words, weights)
    # One word is removed four times (3), then half of five words, rounded to two: 3 + 2.
    assert float(exact) == pytest.approx((4 * 3 + 5) / 5)
    assert float(absolute) == pytest.approx((4 * -4 + (-4 + 3)) / 5)
    for _ in range(20):
        assert yardstick.judge(words, torch.randn(5, dtype=torch.float64)) <= exact
