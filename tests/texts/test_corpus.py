"""Corpora: GLUE files, lists of texts, hashes, and files that are rejected."""

import pytest

from identiformer.errors import InputError
from identiformer.texts import Example, corpus_hash, read_corpus
from identiformer.texts.corpus import read_texts


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


def test_columns_are_found_by_header_or_by_the_layout_of_cola(tmp_path):
    path = tmp_path / "dev.tsv"
    assert read_corpus(table(path, ("index", "sentence1", "sentence2"), ("0", "a", "b"))) == (Example("a", "b"),)
    assert read_corpus(table(path, ("sentence", "label"), ("a", "1"))) == (Example("a"),)
    assert read_corpus(table(path, ("gj04", "1", "", "a b."), ("gj04", "0", "*", "b a."))) == (Example("a b."), Example("b a."))


def test_a_list_of_texts_pairs_and_examples():
    assert read_corpus(["a", ("b", "c"), Example("d")], limit=2) == (Example("a"), Example("b", "c"))


def test_the_hash_depends_on_where_a_text_ends():
    corpora = ([Example("ab", "c")], [Example("a", "bc")], [Example("ab"), Example("c")], [Example("ab"), Example("c", "")])
    assert len({corpus_hash(corpus) for corpus in corpora}) == len(corpora)


def test_the_hash_depends_on_tags_and_is_unchanged_without_them():
    plain = [Example("ab", "c"), Example("dé")]
    assert corpus_hash(plain) == "sha256:bf414860a5d1de16475fa4e6f8fd898659c07d524b58f4265deefdf9e3c398c4"
    tagged = [
        [Example(*fields), Example("dé")]
        for fields in (("ab", "c", "NN"), ("ab", "c", "VB"), ("ab", "c", None, "NN"), ("ab", "c", "NN", "NN"))
    ]
    assert len({corpus_hash(corpus) for corpus in [plain, *tagged]}) == 5


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "is empty"),
        ([("one", "two"), ("a", "b")], "but there are 'one', 'two'; choose"),
        ([("sentence1", "sentence2"), ("a",)], "line 2"),
        ([("sentence",), ("a",), (" ",)], "line 3"),
    ],
)
def test_a_table_without_texts_is_rejected(tmp_path, lines, message):
    with pytest.raises(InputError, match=message):
        read_corpus(table(tmp_path / "dev.tsv", *lines))


def test_other_bad_corpora_are_rejected(tmp_path):
    with pytest.raises(InputError, match="there is none"):
        read_corpus(tmp_path / "none.tsv")
    with pytest.raises(InputError, match=r"corpus file ending in \.tsv, .* got dev\.parquet; choose its format"):
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
def test_real_files_have_the_expected_number_of_examples(shared, file, first, examples):
    assert len(read_corpus(shared / "data" / file, first)) == examples


def test_texts_are_read_one_per_line(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("First text.\n\n  Second text. \n", encoding="utf-8")
    assert read_texts(path, 1, 3) == ("First text.", "Second text.")
    with pytest.raises(InputError, match=r"expected 1 texts in .*, one per line, got 2"):
        read_texts(path, 1, 1)
    path.write_bytes(b"\xff")
    for unreadable in (path, tmp_path / "missing.txt", tmp_path):
        with pytest.raises(InputError, match="expected a text file"):
            read_texts(unreadable, 1, 3)
