"""The data of a panel is plain JSON, with sentences and labels in it."""

import json

import numpy as np
import pytest

import identiformer as idf
from identiformer.measures.attention.ambiguity import ALTERNATIVES as COMPUTED
from identiformer.page import panels
from identiformer.readings import attribution_sentences
from identiformer.readings.sentences.certificate import row_sentence
from tests.models.families import SERVED, build, word_tokenizer, words


@pytest.fixture(scope="module")
def model():
    return idf.load(build("bert", SERVED["bert"]), word_tokenizer())


def test_every_alternative_has_a_label():
    assert set(panels.ALTERNATIVES) == set(COMPUTED)


def test_the_certificate_panel_has_bounds_and_alternatives_of_one_row(model):
    trace = model.trace(words(24))
    result = idf.ambiguity(trace, 2, 1, queries=3)
    panel = json.loads(json.dumps(panels.certificate_panel(result), allow_nan=False))
    assert (panel["layer"], panel["head"], panel["query"]) == (2, 1, 3)
    assert panel["raw"] == pytest.approx(trace.layer(2).recorded().weights[1, 3].tolist(), abs=1e-6)
    assert panel["sentences"][0] == row_sentence(result, state_tolerance=False)
    assert panel["patched_run"] is None
    for name, alternative in panel["alternatives"].items():
        exact = result.isel(query=0).alternatives.sel(alternative=name).values
        assert alternative["row"] == pytest.approx(exact, abs=1e-6)


def test_the_attribution_panel_has_contributions_and_sentences(model):
    result = idf.token_attribution(model, words(6))
    panel = json.loads(json.dumps(panels.attribution_panel(result), allow_nan=False))
    assert panel["contributions"]["shape"] == [result.sizes["target"], result.sizes["source"]]
    assert panel["sentences"] == attribution_sentences(result)
    assert np.array_equal(panel["certain"], result.main_contributor_certain)
    assert panel["corpus"] is None
