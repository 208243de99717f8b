"""Corpora that cannot be read, or are not text: a one-sentence error each, without waiting."""

import csv
import os
import socket
import sys

import pytest

from identiformer.errors import InputError
from identiformer.texts import Columns, Example, corpus_hash, open_source, read_corpus, survey_corpus
from identiformer.texts.readers import lines as lines_module

DEEP = b'{"text": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", b'{"text": "a", "n": ' + b"9" * 5000 + b"}", "expected JSON in line 1 .* number of too many digits; repair"),
        ("a.jsonl", DEEP, "nested too deeply"),
        (
            "a.jsonl",
            b'{"text": "a \\ud800 b"}',
            r"half of a surrogate pair .* at character 2 of .*; read it as UTF-8, or repair or remove it",
        ),
        ("a.jsonl", b'{"text": "a", "text tags": "\\udfff"}', "half of a surrogate pair"),
        ("a.jsonl", b'{"text": "\xed\xa0\x80"}', "byte 0xed at column 11; convert"),
        ("a.jsonl", b'{"text": NaN}', "expected texts that are not empty"),
        ("a.jsonl", b'{"text": {}}', "expected texts that are not empty"),
        ("a.jsonl", b"\0\0\0", "expected JSON in line 1"),
        ("a.txt", b"\xff\xfea\0b\0", "byte 0xff at column 1; convert"),
        ("a.txt", b"", "has none"),
        ("a.jsonl", b"", "has none"),
        ("a.tsv", b"", "is empty"),
        ("a.csv", b"text\n\xc3(", "byte 0xc3"),
        ("a.csv", b'"text', "expected a row of a table in line 1 .*; repair or remove"),
        ("a.csv", b'text\n"a"b\n', "expected a row of a table in line 2"),
    ],
)
def test_invalid_content_is_reported_with_its_line(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        survey_corpus(open_source(path))
    str(caught.value).encode()
    assert len(str(caught.value)) < 1000


def test_nul_bytes_are_ordinary_characters(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"a\0b\n")
    assert read_corpus(tmp_path / "a.txt") == (Example("a\0b"),)


@pytest.mark.parametrize("wrong", ["\udc80", ("a", "\ud83d")])
def test_half_a_surrogate_pair_in_a_list_is_rejected(wrong):
    with pytest.raises(InputError, match=r"expected text in Unicode, got half of a surrogate pair"):
        read_corpus([wrong])


@pytest.mark.parametrize("limit", [0, -1, 10**30, -(10**30)])
def test_a_limit_is_a_number_of_examples(limit):
    for read in (read_corpus, lambda texts, limit: survey_corpus(open_source(texts), limit)):
        with pytest.raises(InputError, match=r"at least one example to read, and at most .*, got .*; leave the limit out"):
            read(["a", "b"], limit)


def _pipe(path):
    os.mkfifo(path)


def _socket(path):
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path)[:100])


NOT_FILES = {
    "pipe": (_pipe, "pipe, socket or device"),
    "socket": (_socket, "pipe, socket or device"),
    "dangling link": (lambda path: path.symlink_to(path.parent / "nowhere"), "a symbolic link to nothing at"),
    "link to itself": (lambda path: path.symlink_to(path), "symbolic links"),
    "folder": (lambda path: path.mkdir(), "expected dev.tsv"),
}


@pytest.mark.timeout(30)
@pytest.mark.parametrize("kind", NOT_FILES)
@pytest.mark.parametrize("name", ["c.txt", "c"])
def test_other_than_a_regular_file_is_rejected_without_waiting(tmp_path, monkeypatch, kind, name):
    monkeypatch.chdir(tmp_path)
    make, message = NOT_FILES[kind]
    make(tmp_path / name)
    with pytest.raises(InputError, match=message):
        survey_corpus(open_source(name, corpus_format="lines"))


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/dev/zero", "pipe, socket or device"),
        ("/dev/stdin", "expected"),
        ("/proc/self/mem", "has none"),
        ("/proc/kmsg", "has none"),
        ("/proc/self/status/x.txt", "Not a directory"),
        ("a" * 5000, "File name too long"),
        ("a" * 300 + ".txt", "File name too long"),
        ("a\0b.txt", "null"),
        ("", "expected"),
    ],
)
def test_paths_without_a_corpus_are_rejected(monkeypatch, path, message):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match=message):
        survey_corpus(open_source(path, corpus_format="lines"))


def test_a_file_without_read_permission_is_an_input_error(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_text("a")
    opened = type(path).open

    def denied(self, *arguments, **options):
        if self == path:
            raise PermissionError(13, "Permission denied", str(path))
        return opened(self, *arguments, **options)

    monkeypatch.setattr(type(path), "open", denied)
    with pytest.raises(InputError, match=r"expected to read the corpus .*a\.txt, but Permission denied; check"):
        read_corpus(path)


def test_standard_input_that_fails_is_an_input_error(monkeypatch):
    class Broken:
        class buffer:
            @staticmethod
            def read(size):
                raise OSError(5, "Input/output error")

    monkeypatch.setattr(sys, "stdin", Broken)
    with pytest.raises(InputError, match="expected to read the corpus -, but Input/output error"):
        read_corpus("-")


def test_a_line_that_is_too_long_is_rejected(tmp_path, monkeypatch):
    monkeypatch.setattr(lines_module, "LONGEST_LINE", 1000)
    path = tmp_path / "a.txt"
    path.write_text("fine\n" + "x" * 1000 + "\n" + "y" * 999)
    with pytest.raises(InputError, match=r"lines of at most 1000 bytes, but line 2 of .* is longer; split it"):
        read_corpus(path)


def test_long_cells_are_read_and_the_limit_of_csv_is_restored(tmp_path):
    long, before = "x" * 200_000, csv.field_size_limit()
    for name, content in (("a.tsv", f"text\n{long}\n"), ("a.csv", f'text\n"{long}"\n')):
        (tmp_path / name).write_text(content)
        assert read_corpus(tmp_path / name) == (Example(long),)
    assert csv.field_size_limit() == before


@pytest.mark.parametrize("change", ["altered", "shortened", "emptied", "removed", "broken", "a tag"])
def test_a_change_after_the_survey_is_noticed_in_its_block(tmp_path, change):
    path = tmp_path / "a.tsv"
    rows = [f"text {number}\tNN CD" for number in range(70)]

    def write(rows):
        path.write_text("\n".join(["text\ttext tags", *rows]) + "\n")

    write(rows)
    survey = survey_corpus(open_source(path, Columns("text")))
    assert survey.hash == corpus_hash(read_corpus(path))
    before = [survey.block(number) for number in range(3)]
    if change == "removed":
        path.unlink()
    elif change == "broken":
        path.write_bytes(path.read_bytes()[:-9] + b"\xff" * 8 + b"\n")
    else:
        ends = {"altered": ["text 6_\tNN CD"], "shortened": [], "emptied": [], "a tag": ["text 69\tNN NN"]}
        write([] if change == "emptied" else [*rows[:-1], *ends[change]])
    if change not in ("removed", "emptied"):
        assert [survey.block(number) for number in range(2)] == before[:2]
    with pytest.raises(InputError, match=r"to stay the same during the run, but examples 64 to 69 .* have changed; run again"):
        survey.block(2)


def test_a_list_that_changes_after_the_survey_is_noticed():
    texts = ["a", "b"]
    survey = survey_corpus(open_source(texts))
    texts[1] = "c"
    with pytest.raises(InputError, match="expected texts to stay the same"):
        survey.block(0)
