"""Effective attention in words: the heads that are described, and sentences about them."""

import json

import pytest
import xarray as xr

import identiformer as idf
from identiformer.errors import InputError
from identiformer.readings.effective import (
    _top,
    describe_head,
    effective_as_json,
    effective_sentences,
    head_sentence,
    heads_to_describe,
)
from identiformer.texts import PASSAGE


@pytest.fixture(scope="module")
def result(minilm):
    return idf.effective_attention(minilm.trace(PASSAGE))


def test_heads_are_ranked_by_correlation(result):
    described = heads_to_describe(result)
    correlations = [float(result.correlation.sel(layer=layer, head=head)) for layer, head in described]
    assert correlations == sorted(correlations)
    assert correlations[0] == pytest.approx(float(result.correlation.min()))
    found = effective_as_json(result, 32)
    assert found["heads_with_null_space"] == found["heads"] == 72
    assert found["largest_nullity"] == found["tokens"] - 32
    assert [(head["layer"], head["head"]) for head in found["shown"]] == described


def test_tokens_that_receive_most(result):
    layer, head = heads_to_describe(result)[0]
    described, one = describe_head(result, layer, head), result.sel(layer=layer, head=head)
    assert described["raw"][0]["position"] == int(one.raw.mean("query").argmax("key"))
    assert described["effective"][0]["position"] == int(abs(one.effective.mean("query")).argmax("key"))
    assert described["raw"][0]["token"] == str(one.key_token[described["raw"][0]["position"]].values)
    assert described["raw"][0]["token"] in head_sentence(described)


def test_chosen_layers_and_heads(result):
    assert heads_to_describe(result, layers=2, heads=7) == [(2, 7)]
    assert {layer for layer, _ in heads_to_describe(result, layers=2)} == {2}
    one, some = (effective_sentences(result, 32, **chosen)[1] for chosen in ({"layers": 2, "heads": 7}, {"layers": 2}))
    assert one.startswith("In layer 2, head 7, the correlation of raw and effective attention is")
    assert some.startswith("Raw and effective attention differ most of the chosen heads in layer 2, head")
    for wrong in ({"layers": 7}, {"layers": [1, 0]}, {"heads": 12}):
        with pytest.raises(InputError, match="expected a"):
            heads_to_describe(result, **wrong)


def test_short_text_has_no_null_space(minilm):
    result = idf.effective_attention(minilm.trace("The baker sails on Tuesdays."))
    assert "None of the 72 heads" in effective_sentences(result, 32)[0]


def test_json_has_no_nan(result):
    text = json.dumps(effective_as_json(result, 32), allow_nan=False)
    assert json.loads(text)["heads"] == 72


def test_a_long_text_is_described_by_its_norms(minilm):
    bare, normed = (idf.effective_attention(minilm.trace(PASSAGE, form="factored", raw_norms=norms)) for norms in (False, True))
    assert heads_to_describe(bare) == []
    assert len(effective_sentences(bare, 32)) == 1
    assert len(heads_to_describe(normed)) == 3
    assert "most effective attention to" in head_sentence(describe_head(normed, *heads_to_describe(normed)[0]))


def test_negative_means_count_by_absolute_value():
    received = xr.DataArray([0.1, -0.4, 0.3], dims="key", coords={"key_token": ("key", ["a", "b", "c"])})
    assert [token["token"] for token in _top(received)] == ["b", "c", "a"]
