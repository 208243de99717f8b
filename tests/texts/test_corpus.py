"""Corpora: GLUE files as they are, texts at hand, and what is none."""

import numpy as np
import pytest

from identiformer.errors import InputError
from identiformer.texts import Example, corpus_hash, frequency_bands, read_corpus, token_types


def table(path, *lines, encoding="utf-8-sig"):
    path.write_bytes("\n".join("\t".join(line) for line in lines).encode(encoding))
    return path


def test_a_quotation_mark_is_a_character(tmp_path):
    header = ("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String")
    rows = (("1", "7", "8", 'He said "no.', "She left."), ("0", "9", "10", "One.", '"Two.'))
    assert read_corpus(table(tmp_path / "dev.tsv", header, *rows)) == (
        Example('He said "no.', "She left."),
        Example("One.", '"Two.'),
    )


def test_tables_are_told_by_their_header_or_by_having_none(tmp_path):
    path = tmp_path / "dev.tsv"
    assert read_corpus(table(path, ("index", "sentence1", "sentence2"), ("0", "a", "b"))) == (Example("a", "b"),)
    assert read_corpus(table(path, ("sentence", "label"), ("a", "1"))) == (Example("a"),)
    assert read_corpus(table(path, ("gj04", "1", "", "a b."), ("gj04", "0", "*", "b a."))) == (Example("a b."), Example("b a."))


def test_texts_at_hand_and_the_first_of_them():
    assert read_corpus(["a", ("b", "c"), Example("d")], limit=2) == (Example("a"), Example("b", "c"))


def test_the_hash_knows_where_a_text_ends():
    corpora = ([Example("ab", "c")], [Example("a", "bc")], [Example("ab"), Example("c")], [Example("ab"), Example("c", "")])
    assert len({corpus_hash(corpus) for corpus in corpora}) == len(corpora)


def test_the_hash_knows_tags_and_is_what_it_was_where_there_are_none():
    plain = [Example("ab", "c"), Example("dé")]
    assert corpus_hash(plain) == "sha256:bf414860a5d1de16475fa4e6f8fd898659c07d524b58f4265deefdf9e3c398c4"
    tagged = [
        [Example(*given), Example("dé")]
        for given in (("ab", "c", "NN"), ("ab", "c", "VB"), ("ab", "c", None, "NN"), ("ab", "c", "NN", "NN"))
    ]
    assert len({corpus_hash(corpus) for corpus in [plain, *tagged]}) == 5


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "is empty"),
        ([("one", "two"), ("a", "b")], "but there are 'one', 'two'; name"),
        ([("sentence1", "sentence2"), ("a",)], "line 2"),
        ([("sentence",), ("a",), (" ",)], "line 3"),
    ],
)
def test_a_file_that_is_no_table_of_texts_is_refused(tmp_path, lines, message):
    with pytest.raises(InputError, match=message):
        read_corpus(table(tmp_path / "dev.tsv", *lines))


def test_other_bad_corpora_are_refused(tmp_path):
    with pytest.raises(InputError, match="there is none"):
        read_corpus(tmp_path / "none.tsv")
    with pytest.raises(InputError, match=r"corpus as \.tsv, .* got dev\.parquet; say what it is"):
        read_corpus(table(tmp_path / "dev.parquet", ("sentence",)))
    with pytest.raises(InputError, match=r"UTF-8, but line 2 of .* has the byte 0xe9 at column 4"):
        read_corpus(table(tmp_path / "latin.tsv", ("sentence",), ("café",), encoding="latin-1"))
    with pytest.raises(InputError, match="at least one example, got none"):
        read_corpus([])
    with pytest.raises(InputError, match=r"at least one example to read, .* got 0"):
        read_corpus(["a"], limit=0)


@pytest.mark.shared
@pytest.mark.parametrize(
    ("file", "first", "examples"), [("MRPC/dev.tsv", None, 408), ("CoLA/dev.tsv", None, 1043), ("MNLI/dev_matched.tsv", 500, 500)]
)
def test_the_real_files_have_as_many_examples_as_they_should(shared, file, first, examples):
    assert len(read_corpus(shared / "data" / file, first)) == examples


def test_types_where_words_are_marked_by_their_start():
    texts = ["<s>", "▁The", "▁is", "land", "▁(", "no", ")", "▁", "a"]
    assert token_types(texts, [True] + [False] * 8).tolist() == [0, 2, 2, 3, 1, 2, 1, 2, 3]


def test_bands_count_the_whole_corpus():
    ids = [5] * 1 + [6] * 2 + [7] * 10 + [8] * 11 + [9] * 100 + [10] * 101
    bands = frequency_bands(np.array(ids))
    assert [int(bands[ids.index(piece)]) for piece in range(5, 11)] == [0, 1, 1, 2, 2, 3]
