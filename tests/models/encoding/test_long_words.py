"""Words that a tokenizer swallows whole are counted as cut, whatever the tokenizer."""

import numpy as np
import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

import identiformer as idf
from tests.models.families import SERVED, build, word_tokenizer

# A word that is swallowed whole is unknown, and these texts have few others.
pytestmark = pytest.mark.filterwarnings("ignore::identiformer.errors.ModelWarning")

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


def test_a_line_that_becomes_three_tokens_is_counted_as_cut(model, tmp_path):
    """The same count without a span: a text is cut where its pieces, put together, are not the text."""
    texts = ["w1 w2 w3", "a b c", "a" * 200_000, ("b", "c " + "b" * 200_000)]
    run = idf.run(texts, model, ["texts"], out=tmp_path / "run")
    assert [len(model.tokens(*([each] if isinstance(each, str) else each))) for each in texts[2:]] == [3, 6]
    assert (int(run["texts"].cut), int(run["texts"].long_words)) == (2, 2)
    assert "2 of them were cut: 2 have words too long for the tokenizer, each one unknown token now." in run.summary
    longer = idf.run([*texts, "c " * 20], model, ["texts"], out=tmp_path / "longer", max_length=10)
    assert (
        "3 of them were cut: 2 have words too long for the tokenizer, each one unknown token now, and 1 others were cut to 10"
        in (longer.summary)
    )


def test_what_is_merely_unknown_is_not_cut(model, tmp_path):
    run = idf.run(["ж " * 20, "\u00a0" * 200 + "a"], model, ["texts"], out=tmp_path / "run")
    assert int(run["texts"].cut) == 0


def test_identify_counts_them_too(model, tmp_path):
    texts = [*(" ".join(np.random.default_rng(seed).choice(list("abcdefgh"), 5)) for seed in range(20)), "a " + "b" * 150]
    found = idf.identify(model, texts, tmp_path, methods=["naive cosine"], layers=[1], resplits=1)
    assert found["token_identifiability"].attrs["cut"] == "1"
