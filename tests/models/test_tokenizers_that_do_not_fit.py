"""Tokenizers that were made up, that know little of a text, or that belong to another model."""

import json

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from identiformer.errors import InputError, ModelError, ModelWarning
from identiformer.models import load
from identiformer.models.encoding.text import tokenize
from identiformer.models.hidden_states.recording import hidden_states
from identiformer.texts import Example
from tests.models.families import ENCODER_DECODERS, LLAMA, SERVED, build, word_tokenizer

WITHOUT_FILES = [
    "bert",
    "roberta",
    "albert",
    "distilbert",
    "electra",
    "gpt2",
    "gpt_neox",
    "llama",
    "qwen3",
    "gemma2",
    "t5",
    "bart",
]


@pytest.mark.parametrize("family", WITHOUT_FILES)
def test_a_folder_without_tokenizer_files_is_rejected(family, tmp_path):
    build(family, {**SERVED, **ENCODER_DECODERS}[family]).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="tokenizer"):
        load(tmp_path)
    assert load(tmp_path, word_tokenizer()).trace("w1 w2").tokens[1] == "w1"


def test_an_empty_vocabulary_is_rejected(tmp_path):
    build("bert", SERVED["bert"]).save_pretrained(tmp_path)
    word_tokenizer().save_pretrained(tmp_path)
    stored = json.loads((tmp_path / "tokenizer.json").read_text())
    stored["model"]["vocab"] = {word: number for word, number in stored["model"]["vocab"].items() if word.startswith("[")}
    (tmp_path / "tokenizer.json").write_text(json.dumps(stored))
    with pytest.raises(ModelError, match="without a vocabulary"):
        load(tmp_path)


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
    """One of another model, with more words than the tiny ones have embeddings for."""
    words = {word: number for number, word in enumerate(["[UNK]", *(f"v{number}" for number in range(500))])}
    tokenizer = Tokenizer(WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]")


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama", "t5", "bart"])
def test_token_ids_beyond_the_embeddings_are_rejected(family):
    model = load(build(family, {**SERVED, **ENCODER_DECODERS}[family]), larger_tokenizer())
    # Only the first few tokens are used to find out how a model attends: one far behind must be noticed too.
    with pytest.raises(InputError, match=r"below 100, .* got 400 for 'v399'; load the tokenizer"):
        model.trace("v1 v2 v3 v4 v5 v6 v7 v399")
    if family in ENCODER_DECODERS:
        with pytest.raises(InputError, match="got 400 for 'v399'"):
            model.trace("v1 v2", "v1 v2 v399")
    assert len(model.trace("v1 v2 v98").tokens) == 3


def test_token_ids_beyond_the_embeddings_are_rejected_where_hidden_states_are_kept(tmp_path):
    model = load(build("bert", SERVED["bert"]), larger_tokenizer())
    with pytest.raises(InputError, match="got 400"), hidden_states(model, [Example("v1 v2 v399")], tmp_path):
        pass


def test_a_second_text_that_a_model_cannot_mark_is_rejected():
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


def test_what_a_tokenizer_raises_is_one_sentence():
    def broken(text, pair, **options):
        raise RuntimeError("no entry\nfound for key")

    with pytest.raises(ModelError, match=r"cannot read a text \(no entry found for key\)"):
        tokenize(broken, "w1")


def test_embeddings_in_other_tables_are_not_held_against_ids():
    network = build("llama", LLAMA)
    network.set_input_embeddings(torch.nn.Sequential(torch.nn.Embedding(1000, 32)))
    assert len(load(network, larger_tokenizer()).trace("v1 v399").tokens) == 2


def test_a_token_id_without_a_text_is_rejected():
    """As a vocabulary has it in which two words share one id."""
    tokenizer = word_tokenizer()
    tokenizer.convert_ids_to_tokens = lambda ids: [None] * len(ids)
    with pytest.raises(InputError, match="text for every token, got none for token id"):
        load(build("bert", SERVED["bert"]), tokenizer).trace("w1 w2")
