"""Corpora with evidence: ERASER's layout, tables of cues, and texts with a planted answer."""

import json

import pytest

from identiformer.errors import CorpusWarning, InputError
from identiformer.texts import open_source, read_corpus, survey_corpus

CUES = "one_prefix_prefix,one_prefix_word_good,one_prefix_word_bad,target\n"


def spans(example):
    return [example.text[slice(*span)] for span in example.evidence or ()]


def eraser(folder, evidence, document="a dull\nfilm , truly dull .\n", name="neg.txt", split="val"):
    """Write ERASER's layout with one document."""
    (folder / "docs").mkdir(exist_ok=True)
    (folder / "docs" / "neg.txt").write_text(document, encoding="utf-8")
    pieces = [[{"docid": name, "start_token": start, "end_token": stop, "text": ""}] for start, stop in evidence]
    record = {"annotation_id": name, "classification": "NEG", "evidences": pieces, "query": "What is the sentiment?"}
    (folder / f"{split}.jsonl").write_text(json.dumps(record) + "\n", encoding="utf-8")
    return folder


def test_evidence_of_eraser_is_counted_in_words_of_the_document(tmp_path):
    folder = eraser(tmp_path, [(1, 3), (4, 6)])
    (example,) = read_corpus(folder)
    assert (example.label, spans(example)) == ("NEG", ["dull\nfilm", "truly dull"])
    eraser(tmp_path, [], split="test")
    assert read_corpus(tmp_path / "test.jsonl")[0].evidence is None
    assert survey_corpus(open_source(folder)).block(0) == [example]


def test_evidence_without_a_word_is_left_out_and_counted(tmp_path):
    with pytest.warns(CorpusWarning, match="left out 2 of 3 pieces of evidence"):
        (example,) = read_corpus(eraser(tmp_path, [(2, 2), (0, 2), (3, 3)]))
    assert spans(example) == ["a dull"]
    lines = (tmp_path / "val.jsonl").read_text(encoding="utf-8")
    (tmp_path / "val.jsonl").write_text(lines * 3, encoding="utf-8")
    with pytest.warns(CorpusWarning, match="left out 4 of 6 pieces of evidence") as warned:
        read_corpus(tmp_path, limit=2)
    assert len(warned) == 1


@pytest.mark.parametrize(("options", "message"), [
    ({"evidence": [(5, 99)]}, r"among the 7 words of neg.txt in line 1 .*, got words \(5, 99\)"),
    ({"evidence": [(-2, 1)]}, r"got words \(-2, 1\)"),
    ({"evidence": [], "document": " "}, "got no words"),
    ({"evidence": [(0, 1)], "name": "../val.jsonl"}, "in one document"),
    ({"evidence": [(0, 1)], "name": "absent.txt"}, "No such file"),
])  # fmt: skip
def test_evidence_that_is_not_in_the_document_is_rejected(tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        read_corpus(eraser(tmp_path, **options))


def test_other_json_next_to_documents_is_rejected(tmp_path):
    (eraser(tmp_path, []) / "val.jsonl").write_text('{"text": "a"}\n', encoding="utf-8")
    with pytest.raises(InputError, match="expected evidence as in ERASER in line 1"):
        read_corpus(tmp_path)


def test_cues_of_all_tables_are_read_in_turn_and_rows_without_one_are_counted(tmp_path):
    (tmp_path / "a.csv").write_text(CUES + "This thistle is for,her,him,this\nAnn sees,herself,himself,NA\n", encoding="utf-8")
    (tmp_path / "b.csv").write_text(CUES + "Those cats,have,has,cats\nMost dogs,bark,barks,dogs\n", encoding="utf-8")
    with pytest.warns(CorpusWarning, match=r"left out 2 of 2 rows of .*a\.csv"):
        assert [spans(example) for example in read_corpus(tmp_path)] == [["cats"], ["dogs"]]
    (example, other) = read_corpus(tmp_path / "b.csv")
    assert (example.text, example.text[slice(*example.answer)], spans(other)) == ("Those cats have", "have", ["dogs"])
    (long, _) = read_corpus(f"planted:{tmp_path / 'b.csv'}")
    assert (spans(long), long.text[slice(*long.answer)]) == (["cats"], "have")
    assert long.text.endswith(f" {example.text}")
    assert len(long.text.split()) > 100


@pytest.mark.parametrize("kind", ["induction", "needle"])
def test_the_source_of_a_planted_answer_is_the_same_word_earlier(kind):
    examples = read_corpus(f"planted:{kind}", 20)
    assert len(set(examples)) > 15
    for example in examples:
        words = [example.text[slice(*span)] for span in (*example.evidence, example.answer)]
        assert words[0] == words[1]
        before = [example.text[: span[0]].split()[-1] for span in (*example.evidence, example.answer)]
        assert before[0] == before[1], "what precedes the answer precedes its source"
        assert example.text.split().count(words[0]) + example.text.split().count(words[0] + ".") == 2


def test_other_planted_texts_are_rejected():
    with pytest.raises(InputError, match="planted:induction, planted:needle, or planted:PATH"):
        open_source("planted:nothing")
