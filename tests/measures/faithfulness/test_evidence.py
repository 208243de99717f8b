"""Rationales and cues: evidence as tokens, maps that know the answer, random maps, and examples without evidence."""

import pytest
import torch

from identiformer.errors import InputError, UnsupportedModelError
from identiformer.measures.faithfulness import YARDSTICKS
from identiformer.measures.faithfulness.evidence import align
from identiformer.models import load
from identiformer.passage import Passage
from identiformer.texts import Example, read_corpus
from identiformer.tokens import Tokens
from tests.measures.maps.tiny import tiny_network
from tests.models.families import word_tokenizer

TEXT = "The islanders sailed away."


def subject_of(family, text, **known):
    return Passage.of(load(tiny_network(family), word_tokenizer()), Example(text, **known))


def test_evidence_is_aligned_by_characters_and_misfits_are_counted(minilm):
    tokens = minilm.tokens(TEXT)
    assert tokens.texts[1:] == ("the", "islanders", "sailed", "away", ".", "[SEP]")
    found = align([(0, 13), (14, 16), (8, 13), (24, 25)], tokens, TEXT)
    assert found.covered.nonzero()[:, 0].tolist() == [1, 2, 3, 4]
    assert (found.spans, found.lost, found.inexact) == (4, 0, 3)
    cut = minilm.limited(4).tokens(TEXT, truncate=True)
    lost = align([(0, 3), (21, 25)], cut, TEXT)
    assert (lost.covered.sum(), lost.lost) == (1, 1)
    assert lost.counts["pieces of evidence without a token"] == 1


def test_a_space_that_belongs_to_a_token_is_not_a_misfit():
    tokens = Tokens(("Her", "▁boats"), (1, 2), (False, False), (0, 0), (0, 1), ((0, 3), (3, 9)))
    found = align([(4, 9)], tokens, "Her boats")
    assert (found.covered.tolist(), found.lost, found.inexact) == ([False, True], 0, 0)


def test_a_second_text_is_never_evidence(minilm):
    tokens = minilm.tokens("one two", "one two")
    assert align([(0, 3)], tokens, "one two").covered.nonzero()[:, 0].tolist() == [1]


def test_tokenizers_that_report_no_characters_are_rejected():
    with pytest.raises(UnsupportedModelError, match="use a fast one"):
        align([(0, 1)], Tokens(("a",), (1,), (False,), (0,)), "a")


def test_an_explanation_that_marks_the_evidence_is_perfect_and_random_ones_are_at_chance():
    passage = subject_of("bert", "w0 w1 w2 w3 w4 w5 w6 w7", evidence=((3, 5), (12, 17)))
    marked = torch.zeros(10).double()
    marked[[2, 5, 6]] = torch.tensor([0.1, -0.3, 0.2]).double()
    generator = torch.Generator().manual_seed(0)
    for name, chance in (("rationale_precision", 0.528), ("rationale_f1", 3 / 8)):
        yardstick = YARDSTICKS[name]
        truth = yardstick.truth(passage)
        assert yardstick.judge(truth, marked) == 1
        marked[0] = 9  # special tokens are not candidates
        assert yardstick.judge(truth, marked) == 1
        random = [yardstick.judge(truth, torch.rand(10, generator=generator).double()) for _ in range(2000)]
        assert float(torch.stack(random).mean()) == pytest.approx(chance, abs=0.02)
        assert yardstick.judge(truth, torch.ones(10).double()) == pytest.approx(chance, abs=0.001)
        assert yardstick.counts(truth)["pieces of evidence"] == 2


@pytest.mark.parametrize(("family", "query"), [("bert", 5), ("llama", 4)])
def test_the_row_that_predicts_the_answer_is_judged(family, query):
    passage = subject_of(family, "w0 w1 w2 w3 w4 w5", evidence=((3, 5),), answer=(12, 14))
    yardstick = YARDSTICKS["cue_precision"]
    truth = yardstick.truth(passage)
    assert truth.queries == (query,)
    scores = torch.rand(2, 8, 8, generator=torch.Generator().manual_seed(0)).double()
    scores[:, query] = torch.tensor([0.0, 0.5, -0.9, 0.1, 0.2, 0.8, 0.3, 9.0])  # the cue is at 2
    scores[1, query, 3] = 1.0
    precision = yardstick.judge(truth, scores)
    torch.testing.assert_close(precision, torch.tensor([1.0, 0.5]).double())


def test_an_explanation_of_a_predicted_answer_is_judged_over_what_precedes_it():
    example = Example("w0 w1 w2 w3 w4 w5", evidence=((3, 5),), answer=(9, 11))
    passage = Passage.of(load(tiny_network("llama", "CausalLM"), word_tokenizer()), example)
    truth = YARDSTICKS["rationale_precision"].truth(passage)
    assert truth.candidate.nonzero()[:, 0].tolist() == [1, 2, 3]
    assert YARDSTICKS["rationale_precision"].judge(truth, torch.tensor([9.0, 0, 1, 0, 9, 9, 9, 9]).double()) == 1


def test_an_induction_head_made_by_hand_is_perfect_on_repeated_words():
    """A map that attends to the token after the previous occurrence, which is where the next word comes from."""
    yardstick = YARDSTICKS["cue_precision"]
    for example in read_corpus("planted:induction", 3):
        passage = Passage.of(load(tiny_network("llama", max_position_embeddings=128), word_tokenizer()), _renamed(example))
        tokens, truth = passage.tokens.texts, yardstick.truth(passage)
        attention = torch.zeros(1, len(tokens), len(tokens)).double()
        for query, word in enumerate(tokens):
            if word in tokens[:query]:
                attention[0, query, tokens.index(word) + 1] = 1
        assert yardstick.judge(truth, attention) == 1
        assert yardstick.judge(truth, attention.roll(1, -1)) < 0.1


def _renamed(example):
    """The text with words that the tiny tokenizer knows."""
    words = example.text.split()
    names = [f"w{words.index(word)}" for word in words]

    def renamed(span):
        index = len(example.text[: span[0]].split())
        start = len(" ".join([*names[:index], ""]))
        return start, start + len(names[index])

    return Example(" ".join(names), evidence=(renamed(example.evidence[0]),), answer=renamed(example.answer))


def test_examples_without_evidence_or_answer_are_rejected():
    bare = subject_of("bert", "w0 w1")
    for name in ("rationale_precision", "rationale_f1", "cue_precision"):
        with pytest.raises(InputError, match="needs the evidence"):
            YARDSTICKS[name].truth(bare)
    with pytest.raises(InputError, match="needs the word that the evidence decides"):
        YARDSTICKS["cue_precision"].truth(subject_of("bert", "w0 w1", evidence=((0, 2),)))


def test_truncated_evidence_and_answers_have_no_score(minilm):
    cut = minilm.limited(4)
    late = Passage.of(cut, Example(TEXT, evidence=((21, 25),), answer=(14, 20)), truncate=True)
    for name in ("rationale_precision", "rationale_f1"):
        truth = YARDSTICKS[name].truth(late)
        assert YARDSTICKS[name].judge(truth, torch.rand(4).double()).isnan()
        assert YARDSTICKS[name].counts(truth)["pieces of evidence without a token"] == 1
    assert YARDSTICKS["cue_precision"].judge(YARDSTICKS["cue_precision"].truth(late), torch.rand(6, 4, 4).double()).isnan().all()
