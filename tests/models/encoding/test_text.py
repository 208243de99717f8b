"""Texts and tokenizers that fit a model are encoded; others are rejected or reported."""

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

import identiformer as idf
from identiformer.errors import InputError, ModelError, ModelWarning
from identiformer.models import load
from identiformer.models.encoding.text import tokenize
from identiformer.models.hidden_states.recording import hidden_states
from identiformer.texts import Example
from tests.models.families import ENCODER_DECODERS, LLAMA, SERVED, build, word_tokenizer


def tiny():
    return load(build("bert", SERVED["bert"]), word_tokenizer())


@pytest.mark.parametrize(
    ("texts", "pairs", "message"),
    [
        ("", None, "empty"),
        ("   ", None, "empty"),
        ("w1", "", "empty"),
        ([], None, "at least one text"),
        (["w1", "w2"], ["w3"], "as many second texts"),
        (" ".join(["w1"] * 63), None, "at most 64 tokens.*got 65"),
    ],
)
def test_texts_that_cannot_be_encoded_are_rejected(texts, pairs, message):
    with pytest.raises(InputError, match=message):
        tiny().trace(texts, pairs)


def test_a_long_text_is_truncated_on_request():
    assert len(tiny().trace(" ".join(["w1"] * 99), truncate=True).tokens) == 64


def test_pairs_have_segments():
    tokens = tiny().trace("w1 w2", "w3").stack().queries
    assert tokens.segments == (0, 0, 0, 0, 1, 1)
    assert tokens.special == (True, False, False, True, False, True)


def test_a_text_that_is_mostly_unknown_is_traced_with_a_warning():
    model = load(build("bert", SERVED["bert"]), word_tokenizer())
    with pytest.warns(ModelWarning, match=r"unknown to the tokenizer.*\[UNK\]"):
        model.trace("w1 mostly unknown words")
    model.trace("w1 w2 half unknown")  # no more than half
    with pytest.warns(ModelWarning, match="unknown"):
        model.trace(["w1 w2", "entirely unknown"])


def test_a_tokenizer_whose_unknown_token_ends_texts_knows_all_tokens():
    tokenizer = word_tokenizer()
    tokenizer.eos_token = tokenizer.unk_token
    load(build("gpt2", SERVED["gpt2"]), tokenizer).trace("unknown words")


def larger_tokenizer():
    """A tokenizer of another model, with more words than the tiny models have embeddings."""
    words = {word: number for number, word in enumerate(["[UNK]", *(f"v{number}" for number in range(500))])}
    tokenizer = Tokenizer(WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]")


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama", "t5", "bart"])
def test_token_ids_beyond_the_embeddings_are_rejected(family):
    model = load(build(family, {**SERVED, **ENCODER_DECODERS}[family]), larger_tokenizer())
    # Only the first few tokens are used to find the attention sites: a later one must be noticed too.
    with pytest.raises(InputError, match=r"below 100, .* got 400 for 'v399'; load the tokenizer"):
        model.trace("v1 v2 v3 v4 v5 v6 v7 v399")
    if family in ENCODER_DECODERS:
        with pytest.raises(InputError, match="got 400 for 'v399'"):
            model.trace("v1 v2", "v1 v2 v399")
    assert len(model.trace("v1 v2 v98").tokens) == 3


def test_token_ids_beyond_the_embeddings_are_rejected_when_hidden_states_are_recorded(tmp_path):
    model = load(build("bert", SERVED["bert"]), larger_tokenizer())
    with pytest.raises(InputError, match="got 400"), hidden_states(model, [Example("v1 v2 v399")], tmp_path):
        pass


def test_a_second_text_without_a_token_type_is_rejected():
    tokenizer = word_tokenizer()
    tokenizer.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    special = [("[CLS]", 2), ("[SEP]", 3)]
    marking = TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=special)
    tokenizer.backend_tokenizer.post_processor = marking
    model = load(build("bert", {**SERVED["bert"], "type_vocab_size": 1}), tokenizer)
    assert model.trace("w1 w2").tokens
    with pytest.raises(InputError, match=r"expected one text, .* type 1"):
        model.trace("w1", "w2")
    assert load(build("bert", SERVED["bert"]), tokenizer).trace("w1", "w2").tokens


def test_an_error_of_the_tokenizer_is_one_sentence():
    def broken(text, pair, **options):
        raise RuntimeError("no entry\nfound for key")

    with pytest.raises(ModelError, match=r"cannot read a text \(no entry found for key\)"):
        tokenize(broken, "w1")


def test_ids_are_not_checked_where_embeddings_are_not_a_table():
    network = build("llama", LLAMA)
    network.set_input_embeddings(torch.nn.Sequential(torch.nn.Embedding(1000, 32)))
    assert len(load(network, larger_tokenizer()).trace("v1 v399").tokens) == 2


def test_a_token_id_without_a_text_is_rejected():
    """This happens in a vocabulary in which two words share one id."""
    tokenizer = word_tokenizer()
    tokenizer.convert_ids_to_tokens = lambda ids: [None] * len(ids)
    with pytest.raises(InputError, match="text for every token, got none for token id"):
        load(build("bert", SERVED["bert"]), tokenizer).trace("w1 w2")


LONG_WORDS_ARE_UNKNOWN = pytest.mark.filterwarnings("ignore::identiformer.errors.ModelWarning")
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefgh", *(f"##{letter}" for letter in "abcdefgh")]


def word_pieces(longest):
    vocabulary = {piece: number for number, piece in enumerate(PIECES)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=longest))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", [("[CLS]", 2), ("[SEP]", 3)]
    )
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)


@pytest.fixture(scope="module", params=["word pieces of 100", "word pieces of 7", "whole words"])
def model(request):
    tokenizers = {
        "word pieces of 100": lambda: word_pieces(100),
        "word pieces of 7": lambda: word_pieces(7),
        "whole words": word_tokenizer,
    }
    return idf.load(build("bert", SERVED["bert"]), tokenizers[request.param]())


@LONG_WORDS_ARE_UNKNOWN
def test_a_long_word_that_becomes_one_unknown_token_counts_as_truncated(model, tmp_path):
    texts = ["w1 w2 w3", "a b c", "a" * 200_000, ("b", "c " + "b" * 200_000)]
    run = idf.run(texts, model, ["texts"], out=tmp_path / "run")
    assert [len(model.tokens(*([text] if isinstance(text, str) else text))) for text in texts[2:]] == [3, 6]
    assert (int(run["texts"].cut), int(run["texts"].long_words)) == (2, 2)
    assert "2 of them were truncated: 2 have words too long for the tokenizer, each now an unknown token." in run.summary
    longer = idf.run([*texts, "c " * 20], model, ["texts"], out=tmp_path / "longer", max_length=10)
    assert "3 of them were truncated: 2 have words too long for the tokenizer" in longer.summary
    assert "each now an unknown token, and 1 others were truncated to 10" in longer.summary


@LONG_WORDS_ARE_UNKNOWN
def test_unknown_words_do_not_count_as_truncated(model, tmp_path):
    run = idf.run(["ж " * 20, "\u00a0" * 200 + "a"], model, ["texts"], out=tmp_path / "run")
    assert int(run["texts"].cut) == 0


@LONG_WORDS_ARE_UNKNOWN
def test_identify_counts_long_words_too(model, tmp_path):
    texts = [*(" ".join(np.random.default_rng(seed).choice(list("abcdefgh"), 5)) for seed in range(20)), "a " + "b" * 150]
    actual = idf.identify(model, texts, tmp_path, methods=["naive cosine"], layers=[1], resplits=1)
    assert actual["token_identifiability"].attrs["cut"] == "1"
