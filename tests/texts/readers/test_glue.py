"""Labeled examples of GLUE tasks, and files that are rejected."""

import pytest

from identiformer.errors import CorpusWarning, InputError
from identiformer.texts import Example, Labeled, read_corpus, read_labeled

MRPC = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"


def write(folder, task, content, split="train"):
    (folder / task).mkdir(exist_ok=True)
    (folder / task / f"{split}.tsv").write_text(content, encoding="utf-8")


def test_pairs_with_a_header_and_literal_quotation_marks(tmp_path):
    write(tmp_path, "MRPC", MRPC + '1\t7\t8\t"He left\tShe stayed"\n0\t9\t10\tOne "\tTwo\n')
    labeled = read_labeled(tmp_path, "MRPC", "train")
    assert labeled == Labeled((Example('"He left', 'She stayed"'), Example('One "', "Two")), (1, 0))
    assert read_labeled(tmp_path, "MRPC", "train", 1).labels == (1,)
    assert labeled.hash != Labeled(labeled.examples, (1, 1)).hash


def test_training_examples_of_one_label_are_warned_of(tmp_path):
    write(tmp_path, "MRPC", MRPC + "1\t7\t8\tHe left\tShe left\n" * 3)
    with pytest.warns(CorpusWarning, match="all 3 training examples of MRPC have the label '1'"):
        read_labeled(tmp_path, "MRPC", "train")


def test_columns_of_tags_are_skipped(tmp_path):
    header = "Quality\t#1 ID\t#2 ID\t#1 String\t#1 String tags\t#2 String\t#2 String tags\n"
    write(tmp_path, "MRPC", header + "1\t7\t8\tHe left\tPRP VBD\tShe stayed\tPRP VBD\n")
    assert read_labeled(tmp_path, "MRPC", "train") == Labeled((Example("He left", "She stayed"),), (1,))


def test_single_sentences_without_a_header(tmp_path):
    write(tmp_path, "CoLA", "gj04\t1\t\tThey left.\ngj04\t0\t*\tThey leaved.\n", "dev")
    assert read_labeled(tmp_path, "CoLA", "dev") == Labeled((Example("They left."), Example("They leaved.")), (1, 0))


def test_single_sentences_with_a_header(tmp_path):
    write(tmp_path, "SST-2", "sentence\tlabel\na stirring film\t1\nno plot\t0\n", "dev")
    assert read_labeled(tmp_path, "SST-2", "dev") == Labeled((Example("a stirring film"), Example("no plot")), (1, 0))


@pytest.mark.parametrize(
    ("task", "content", "message"),
    [
        ("SST", "", "a task of MRPC, CoLA, SST-2, TREC, movies, got 'SST'"),
        ("CoLA", "", "has none"),
        ("MRPC", "1\t7\t8\tone\ttwo\n", "expected the header Quality, .* got 1, 7, 8, one, two"),
        ("MRPC", MRPC + "1\t7\t8\tone\ttwo\n2\t7\t8\tone\ttwo\n", "label 0 or 1 in column 1 of line 3 .* got '2'"),
        ("CoLA", "gj04\t1\t\tThey left.\nThey leaved.\n", r"expected 1 nonempty text\(s\) in line 2"),
        ("CoLA", "gj04\t1\t\n", r"expected 1 nonempty text\(s\) in line 1"),
    ],
)
def test_invalid_tasks_and_files_are_rejected(tmp_path, task, content, message):
    write(tmp_path, task, content)
    with pytest.raises(InputError, match=message):
        read_labeled(tmp_path, task, "train")


def test_a_missing_file_is_reported(tmp_path):
    with pytest.raises(InputError, match=r"the dev examples of MRPC in .*MRPC/dev.tsv, but there is no such file"):
        read_labeled(tmp_path, "MRPC", "dev")
    with pytest.raises(InputError, match="at least one example"):
        read_labeled(tmp_path, "MRPC", "dev", 0)


@pytest.mark.shared
@pytest.mark.parametrize(
    ("task", "train", "dev", "ones"), [("MRPC", 3668, 408, 279), ("CoLA", 8551, 1043, 721), ("SST-2", 6920, 872, 444)]
)
def test_the_real_tasks(shared, task, train, dev, ones):
    actual = read_labeled(shared / "data", task, "dev")
    assert (len(read_labeled(shared / "data", task, "train")), len(actual), sum(actual.labels)) == (train, dev, ones)
    assert actual.examples == read_corpus(shared / "data" / task)
