"""Penn tags of tokens against NLTK on hand-split words, with known tags, and without NLTK; token types and frequencies."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.trainers import BpeTrainer
from transformers import PreTrainedTokenizerFast

import identiformer as idf
from identiformer.errors import InputError, MissingPackageError
from identiformer.texts.tagging import OTHER_TAG, PENN_TAGS, frequency_bands, load_tagger, penn_tags, penn_words, token_types
from identiformer.tokens import Tokens
from tests.models.families import SERVED, build

# Words as people write them and as the treebank splits them; a tokenizer splits them at every mark.
WRITTEN = [
    ("Obama", ["Obama"]),
    ("don't", ["do", "n't"]),
    ("Can't", ["Ca", "n't"]),
    ("is n't", ["is", "n't"]),
    ("company's", ["company", "'s"]),
    ("company 's", ["company", "'s"]),
    ("they’ve", ["they", "'ve"]),
    ("I'LL", ["I", "'LL"]),
    ("(so)", ["(", "so", ")"]),
    ("yes —", ["yes", "--"]),
    ('"quoted"', ["``", "quoted", "''"]),
    ("boys' toys", ["boys", "'", "toys"]),
    ("Paris.", ["Paris", "."]),
]


def at_every_mark(text):
    """The words of BERT: runs of letters, and every mark alone."""
    spans, start = [], None
    for position, character in enumerate(text + " "):
        if start is not None and not character.isalnum():
            spans.append((start, position))
            start = None
        if character.isalnum() and start is None:
            start = position
        elif not character.isalnum() and not character.isspace():
            spans.append((position, position + 1))
    return spans


@given(some.lists(some.sampled_from(WRITTEN), max_size=8))
def test_words_are_split_as_in_the_treebank(parts):
    text = " ".join(written for written, _ in parts)
    assert [word for _, word in penn_words(text, at_every_mark(text))] == [word for _, split in parts for word in split]
    spaced = [(max(start - 1, 0) if text[start - 1 : start] == " " else start, stop) for start, stop in at_every_mark(text)]
    assert penn_words(text, spaced) == penn_words(text, at_every_mark(text))


TEXT, PAIR = "He said the company's unbelievablest Foodservice pie didn't fit.", 'Nobody "asked" Ms. O’Hara'


@pytest.mark.shared
def test_pieces_get_the_tags_of_words_split_by_hand(shared, minilm):
    from nltk.tag import pos_tag

    words = ["He", "said", "the", "company", "'s", "unbelievablest", "Foodservice", "pie", "did", "n't", "fit", "."]
    tag = dict(pos_tag(words))
    tokens = minilm.tokens(TEXT, PAIR)
    actual = penn_tags(tokens, TEXT, PAIR)
    first = [label for label, segment in zip(actual, tokens.segments, strict=True) if segment == 0]
    pieces = {"unbelievablest": 0, "Foodservice": 0}
    for word in pieces:
        pieces[word] = len(minilm.tokens(word)) - 2
    counts = [{"'s": 2, "n't": 2, **pieces}.get(word, 1) for word in words]
    expected = [tag[word] for word, count in zip(words, counts, strict=True) for _ in range(count)]
    assert min(pieces.values()) > 1
    assert first == ["[CLS]", *expected, "[SEP]"]
    assert actual[tokens.texts.index("asked") - 1 : tokens.texts.index("asked") + 2 : 2] == ["``", "''"]
    assert actual[-1] == "[SEP]"


SPACED, ITS_TAGS = "Unbelievablest  Foodservice\u00a0pies don't fit .", "JJS NNP NNS MD VB ."


def no_tagger():
    raise MissingPackageError("no tagger here")


def test_pieces_get_the_known_tag_of_their_word_without_a_tagger(minilm, monkeypatch):
    monkeypatch.setattr("identiformer.texts.tagging.load_tagger", no_tagger)
    pieces = [len(minilm.tokens(word)) - 2 for word in SPACED.split()]
    expected = [tag for tag, count in zip(ITS_TAGS.split(), pieces, strict=True) for _ in range(count)]
    assert min(pieces[0], pieces[1], pieces[3]) > 1
    assert penn_tags(minilm.tokens(SPACED), SPACED, tags=ITS_TAGS) == ["[CLS]", *expected, "[SEP]"]
    pair = "odd one"
    actual = penn_tags(minilm.tokens(pair, SPACED), pair, SPACED, "[SEP] my-own", ITS_TAGS)
    assert actual == ["[CLS]", "[SEP]", "my-own", "[SEP]", *expected, "[SEP]"]
    cut = minilm.limited(6).tokens(SPACED, truncate=True)
    assert penn_tags(cut, SPACED, tags=ITS_TAGS) == ["[CLS]", *expected[:4], "[SEP]"]


@pytest.fixture
def of_bytes():
    """A tiny model whose tokens are bytes and pairs of them, as those of GPT-2."""
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = ByteLevel(add_prefix_space=False), ByteLevelDecoder()
    trainer = BpeTrainer(initial_alphabet=ByteLevel.alphabet(), vocab_size=280, show_progress=False)
    tokenizer.train_from_iterator(["an unbelievable one, at once: .", "the best of the largest"], trainer)
    return idf.load(build("gpt2", {**SERVED["gpt2"], "vocab_size": 280}), PreTrainedTokenizerFast(tokenizer_object=tokenizer))


@pytest.mark.parametrize("name", ["of_bytes", pytest.param("smollm2", marks=pytest.mark.slow)])
def test_pieces_that_begin_with_a_space_get_the_tag_of_the_next_word(name, request, monkeypatch):
    monkeypatch.setattr("identiformer.texts.tagging.load_tagger", no_tagger)
    text, tags = " One  unbelievablest café 🙂 .", "CD JJS NN SYM ."
    tokens = request.getfixturevalue(name).tokens(text)
    actual = penn_tags(tokens, text, tags=tags)
    assert any(piece.startswith("▁") for piece in tokens.texts)
    # By the piece's own letters: every word begins with a character that no other one has.
    labels = {"O": "CD", "u": "JJS", "c": "NN", "🙂": "SYM", ".": "."}
    words = {word.start(): labels[word.group()[0]] for word in re.finditer("[^ ]+", text)}
    for label, (start, stop) in zip(actual, tokens.spans, strict=True):
        letters = [position for position in range(start, stop) if text[position] != " "]
        assert label == (words[max(begin for begin in words if begin <= letters[0])] if letters else OTHER_TAG)
    assert list(dict.fromkeys(tag for tag in actual if tag != OTHER_TAG)) == tags.split()
    assert actual.count("JJS") > 1
    assert OTHER_TAG in actual


@pytest.mark.shared
def test_known_tags_override_the_tagger(shared, minilm):
    text, pair = "The old boat left.", "The old boat left."
    tokens = minilm.tokens(text, pair)
    by_tagger = penn_tags(tokens, text, pair)
    known = ["UH"] * 5
    first, second = by_tagger[1:6], by_tagger[7:12]
    assert first == second
    assert not {"UH"} & set(by_tagger)
    assert penn_tags(tokens, text, pair, "UH UH UH UH") == ["[CLS]", *known, "[SEP]", *second, "[SEP]"]
    assert penn_tags(tokens, text, pair, None, "UH UH UH UH") == ["[CLS]", *first, "[SEP]", *known, "[SEP]"]
    with pytest.raises(InputError, match=r"expected 4 tag\(s\) .* got 3"):
        penn_tags(tokens, text, pair, "UH UH UH")


@pytest.mark.shared
def test_tags_can_group_an_attribution(shared, minilm):
    text = "The old boat was n't there."
    tokens = minilm.tokens(text)
    tags = penn_tags(tokens, text)
    result = idf.token_attribution(minilm, text, group_by=tags, layers=[2])
    assert list(result["set"].values) == list(dict.fromkeys(tags))
    summed = result.contribution.values[..., [position for position, tag in enumerate(tags) if tag == "RB"]].sum(-1)
    assert result.set_contribution.sel(set="RB").values == pytest.approx(summed)


@pytest.mark.shared
def test_the_tags_are_those_of_the_tagger(shared):
    assert set(PENN_TAGS) == load_tagger().classes
    assert len(PENN_TAGS) == 45


@pytest.fixture
def empty_cache():
    load_tagger.cache_clear()
    yield
    load_tagger.cache_clear()


def test_a_missing_package_is_reported_with_its_install_command(empty_cache, monkeypatch, tiny_path, tmp_path):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingPackageError, match=r"run: pip install 'identiformer\[tags\]'"):
        load_tagger()
    with pytest.raises(MissingPackageError, match="tags of words need a package"):
        idf.run(["a"], tiny_path, ["self_contribution_by_tag"], out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_missing_tagger_data_is_reported_with_the_download_command(empty_cache, monkeypatch):
    import nltk

    monkeypatch.setattr(nltk.data, "path", [])
    with pytest.raises(InputError, match=r"python -m nltk\.downloader averaged_perceptron_tagger_eng, or set .* NLTK_DATA"):
        load_tagger()


def test_a_tokenizer_without_spans_is_rejected():
    with pytest.raises(InputError, match="use a fast one"):
        penn_tags(Tokens(("a",), (1,), (False,), (0,)), "a")


def test_token_types_of_a_vocabulary_that_marks_word_starts():
    texts = ["<s>", "▁The", "▁is", "land", "▁(", "no", ")", "▁", "a"]
    assert token_types(texts, [True] + [False] * 8).tolist() == [0, 2, 2, 3, 1, 2, 1, 2, 3]


def test_frequency_bands_count_the_whole_corpus():
    ids = [5] * 1 + [6] * 2 + [7] * 10 + [8] * 11 + [9] * 100 + [10] * 101
    bands = frequency_bands(np.array(ids))
    assert [int(bands[ids.index(piece)]) for piece in range(5, 11)] == [0, 1, 1, 2, 2, 3]
