"""Weight that a page moves from one key to another."""

import json

import pytest

import identiformer as idf
from identiformer.errors import InputError
from identiformer.explorer.requests import task
from identiformer.explorer.texts import OpenText
from identiformer.progress import work_bar
from identiformer.readings import moved_weight_sentences
from tests.models.families import SERVED, build, word_tokenizer, words

MOVE = {"task": "move", "layer": 2, "head": 1, "query": 3, "source": 0, "target": 5, "share": 0.5}


@pytest.fixture(scope="module")
def text():
    model = idf.load(build("bert", SERVED["bert"]), word_tokenizer())
    return OpenText(idf.Passage.of(model, words(8)))


def test_the_page_gets_what_the_library_computes(text):
    with work_bar("moving", False) as bar:
        panel = json.loads(json.dumps(task(text, MOVE)(bar), allow_nan=False))
    moved = idf.move_weight(text.passage.model, text.passage, 2, 1, 3, 0, 5, share=0.5)
    assert panel["sentences"] == moved_weight_sentences(moved)
    assert (panel["alternative"], panel["head_change"]) == (moved.alternative, moved.head_change)
    assert (panel["patched"], panel["control"]) == (moved.patched, moved.control)
    assert panel["predictions"] == []


@pytest.mark.parametrize("change", [{"share": 2}, {"share": "all"}, {"share": True}, {"source": "0"}, {"target": None}])
def test_a_malformed_move_is_rejected(text, change):
    with pytest.raises(InputError, match="reload the page"):
        task(text, MOVE | change)


def test_the_summary_has_the_patterns_of_heads(text):
    patterns = text.summary()["patterns"]
    expected = idf.attention_patterns(text.passage.trace)
    assert patterns["dominant"] == expected.dominant.values.tolist()
    assert patterns["shares"]["previous"][1][2] == pytest.approx(float(expected.share.sel(pattern="previous")[1, 2]), abs=1e-4)
    assert set(patterns["meanings"]) == set(expected["pattern"].values)
