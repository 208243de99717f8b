"""Corpora in every format, read whole and one block at a time, and files that are rejected."""

import io
import json
import sys
import tracemalloc

import pytest

from identiformer.errors import InputError, MissingPackageError
from identiformer.texts import Columns, Example, corpus_hash, open_source, read_corpus, survey_corpus


def read(path, columns=None, corpus_format=None):
    return [example for example, _ in open_source(path, columns, corpus_format).read()]


def test_a_survey_agrees_with_reading_the_whole_corpus(tmp_path):
    path = tmp_path / "texts.csv"
    rows = [f'{number},"a ""quoted"" text,\nover lines {number}",é{number}' for number in range(75)]
    path.write_text("id,text,second\n" + "\n".join(rows) + "\n", encoding="utf-8")
    source = open_source(path, Columns("text", "second"))
    survey = survey_corpus(source)
    whole = [example for example, _ in source.read()]
    assert whole[3] == Example('a "quoted" text,\nover lines 3', "é3")
    assert (survey.examples, len(survey.hashes)) == (75, 3)
    assert survey.hash == corpus_hash(whole)
    assert [example for block in (2, 0, 1) for example in survey.block(block)] == whole[64:] + whole[:64]
    assert survey_corpus(source, 40).hash == corpus_hash(whole[:40])
    assert len(survey_corpus(source, 40).block(1)) == 8


def test_plain_text_by_lines_and_by_paragraphs(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("one\n\n two \nthree\n\n\nfour", encoding="utf-8")
    assert read(path) == [Example(text) for text in ("one", "two", "three", "four")]
    assert read(path, corpus_format="paragraphs") == [Example(text) for text in ("one", "two three", "four")]
    for corpus_format in ("lines", "paragraphs"):
        source = open_source(path, corpus_format=corpus_format)
        whole = list(source.read())
        for index, (_, mark) in enumerate(whole):
            assert list(source.read(mark)) == whole[index + 1 :]


def test_json_lines(tmp_path):
    path = tmp_path / "texts.jsonl"
    path.write_text('{"premise": "a", "hypothesis": "b"}\n\n{"premise": "c", "hypothesis": "d"}\n', encoding="utf-8")
    assert read(path) == [Example("a", "b"), Example("c", "d")]
    assert read(path, Columns("hypothesis")) == [Example("b"), Example("d")]


def test_standard_input_can_be_read_again(monkeypatch):
    class Pipe:
        buffer = io.BytesIO(b"one\ntwo\n")

    monkeypatch.setattr(sys, "stdin", Pipe)
    source = open_source("-")
    assert survey_corpus(source).block(0) == [Example("one"), Example("two")]
    assert source.name == "standard input"


def test_a_glue_folder_defaults_to_its_development_set(tmp_path):
    (tmp_path / "dev.tsv").write_text("sentence\tlabel\na\t1\n", encoding="utf-8")
    assert read(tmp_path) == [Example("a")]


@pytest.mark.parametrize(
    ("name", "content", "columns", "message"),
    [
        (
            "a.csv",
            "id,body\n1,x\n",
            Columns(),
            "expected the columns of texts in the header of .* there are 'id', 'body'; choose",
        ),
        ("a.tsv", "id\tbody\n1\tx\n", Columns("text"), "expected the column 'text' in .* 'id', 'body'"),
        ("a.csv", "id,body\n1,x\n", Columns("body", "other"), "the columns 'body' and 'other' in"),
        ("a.jsonl", '{"id": 1}\n', Columns(), "columns of texts in line 1 .* there are 'id'"),
        ("a.jsonl", '{"text": "x"}\n{"text": 3}\n', Columns(), "line 2 of"),
        ("a.jsonl", '{"text": "x"}\n{"text"\n', Columns(), "expected JSON in line 2"),
        ("a.jsonl", "[1]\n", Columns(), "expected a JSON object in line 1"),
        ("a.csv", 'text\n"never closed\n', Columns(), "expected a row of a table in line 2"),
        ("a.txt", "\n \n", Columns(), "at least one example, but .*a.txt has none"),
        ("a.csv", "text\n", Columns(), "has none"),
        ("a.csv", "", Columns(), "is empty"),
    ],
)
def test_a_file_without_texts_is_rejected(tmp_path, name, content, columns, message):
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        survey_corpus(open_source(tmp_path / name, columns))


def test_other_bad_corpora_are_rejected(tmp_path):
    (tmp_path / "latin.txt").write_bytes("fine\ncafé\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"line 2 of .*latin\.txt has the byte 0xe9 at column 4"):
        survey_corpus(open_source(tmp_path / "latin.txt"))
    with pytest.raises(InputError, match=r"expected dev\.tsv or .* but there is latin\.txt; name the file"):
        open_source(tmp_path)
    with pytest.raises(InputError, match="format of tsv"):
        open_source(tmp_path / "latin.txt", corpus_format="parquet")
    with pytest.raises(InputError, match="add --text-column"):
        Columns(pair="b")
    with pytest.raises(InputError, match="there is none"):
        open_source(tmp_path / "none.txt")


def test_a_hub_dataset_needs_a_package(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingPackageError, match=r"owner/corpus:test is not a file here.*pip install 'identiformer\[corpus\]'"):
        read_corpus("owner/corpus:test")


def test_a_hub_dataset_is_read_by_name_configuration_and_split(monkeypatch):
    calls = []

    class Rows(list):
        column_names = ("sentence1", "sentence2", "sentence2 tags", "label")

    class Package:
        @staticmethod
        def load_dataset(*names, split):
            calls.append((*names, split))
            row = {"sentence2": "b", "sentence2 tags": "LS", "label": 1}
            return Rows({"sentence1": f"a{number}", **row} for number in range(40))

    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    monkeypatch.setitem(sys.modules, "datasets", Package)
    survey = survey_corpus(open_source("glue:mrpc:validation"))
    assert calls == [("glue", "mrpc", "validation")]
    assert survey.block(1)[0] == Example("a32", "b", None, "LS")


TAGGED = [Example("He left , slowly", "So what", "PRP VBD , RB", "RB WP"), Example("Go", "No", "VB", "UH")]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (
            "a.tsv",
            "#1 String\t#1 String tags\t#2 String\t#2 String tags\n"
            "He left , slowly\tPRP VBD , RB\tSo what\tRB WP\nGo\tVB \tNo\tUH\n",
        ),
        (
            "a.csv",
            'sentence1,sentence2,sentence2 tags,sentence1 tags\n"He left , slowly",So what,RB WP,"PRP VBD , RB"\nGo,No,UH,VB\n',
        ),
        (
            "a.jsonl",
            '{"premise tags": "PRP VBD , RB", "premise": "He left , slowly", '
            '"hypothesis": "So what", "hypothesis tags": "RB WP"}\n'
            '{"premise": "Go", "premise tags": "VB", "hypothesis": "No", "hypothesis tags": "UH"}\n',
        ),
    ],
)
def test_tags_are_read_from_the_column_named_after_that_of_the_text(tmp_path, name, content):
    (tmp_path / name).write_text(content, encoding="utf-8")
    assert read(tmp_path / name) == TAGGED
    survey = survey_corpus(open_source(tmp_path / name))
    assert survey.tagged
    assert survey.hash == corpus_hash(TAGGED)
    assert survey.block(0) == TAGGED


def test_tags_belong_to_the_chosen_columns(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("one\tone tags\ttwo\nHe left\tPRP VBD\tShe stayed\n", encoding="utf-8")
    assert read(path, Columns("one", "two")) == [Example("He left", "She stayed", "PRP VBD")]
    assert not survey_corpus(open_source(path, Columns("one", "two"))).tagged
    assert survey_corpus(open_source(path, Columns("one"))).tagged
    assert read(path, Columns("two", "one")) == [Example("She stayed", "He left", None, "PRP VBD")]
    assert read(path, Columns("two")) == [Example("She stayed")]


def test_records_with_and_without_tags(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "Go on", "text tags": "VB RP"}\n{"text": "No"}\n{"text": "So", "text tags": null}\n')
    assert read(path) == [Example("Go on", tags="VB RP"), Example("No"), Example("So")]
    assert survey_corpus(open_source(path), 1).tagged
    assert not survey_corpus(open_source(path)).tagged


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.tsv",
            "text\ttext tags\nGo\tVB\nGo on now\tVB RP\n",
            r"line 3 of .*a\.tsv: .* 3 tag\(s\) .* 3 word.*'Go on now', got 2",
        ),
        ("a.tsv", "text\ttext tags\nGo\t \n", r"line 2 of .* 1 tag\(s\) for the 1 word\(s\) of 'Go', got 0"),
        ("a.tsv", "text\ttext tags\nGo\n", "line 2 of .* got 0"),
        ("a.csv", 'text,text tags\n"Go on",VB RP RB\n', "line 2 of .* 2 tag.* got 3"),
        ("a.csv", "sentence1,sentence2,sentence2 tags\nGo,Go on,VB\n", "line 2 of .*'Go on', got 1"),
        ("a.jsonl", '{"text": "Go"}\n{"text": "Go on", "text tags": "VB"}\n', "line 2 of .* 2 tag.* got 1"),
        ("a.jsonl", '{"text": "Go", "text tags": ""}\n', "line 1 of .* 1 tag.* got 0"),
        (
            "a.jsonl",
            '{"text": "Go", "text tags": ["VB"]}\n',
            r"separated by spaces under 'text tags' in line 1 of .* got \['VB'\]",
        ),
    ],
)
def test_a_wrong_number_of_tags_is_rejected(tmp_path, name, content, message):
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=message) as raised:
        survey_corpus(open_source(tmp_path / name))
    assert len(str(raised.value).splitlines()) == 1


def test_an_example_has_as_many_tags_as_words():
    with pytest.raises(InputError, match=r"expected 2 tag\(s\) for the 2 word\(s\) of 'Go on', got 1"):
        Example("Go on", tags="VB")
    with pytest.raises(InputError, match="got 1"):
        Example("Go", pair_tags="VB")


def test_a_long_file_is_not_held_in_memory(tmp_path):
    path = tmp_path / "long.jsonl"
    with path.open("w") as file:
        for number in range(2_000):
            file.write(json.dumps({"text": f"line {number}, one of many" + " such lines" * 30}) + "\n")
    tracemalloc.start()
    survey = survey_corpus(open_source(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert survey.examples == 2_000
    assert peak < 0.3e6 < path.stat().st_size / 2
    assert survey.block(60)[5].text.startswith("line 1925, ")
