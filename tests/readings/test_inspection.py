"""The findings on one text, in words and numbers."""

import json

import pytest
import xarray as xr

import identiformer as idf
from identiformer.errors import InputError
from identiformer.readings.inspection import _top
from identiformer.texts import PASSAGE


@pytest.fixture(scope="module")
def inspection(minilm):
    return idf.inspect_text(minilm.trace(PASSAGE))


def test_the_most_misleading_heads_come_first(inspection):
    correlations = [head.correlation for head in inspection.misleading]
    assert correlations == sorted(correlations)
    assert correlations[0] == pytest.approx(float(inspection.result.correlation.min()))
    assert inspection.heads_with_null_space == inspection.heads == 72
    assert inspection.largest_nullity == inspection.tokens - 32


def test_each_map_points_at_what_receives_most(inspection):
    head = inspection.misleading[0]
    one = inspection.result.sel(layer=head.layer, head=head.head)
    assert head.raw[0].position == int(one.raw.mean("query").argmax("key"))
    assert head.effective[0].position == int(abs(one.effective.mean("query")).argmax("key"))
    assert head.raw[0].token == str(one.key_token[head.raw[0].position].values)
    assert head.raw[0].token in head.sentence()


def test_a_given_head_is_looked_at(minilm):
    trace = minilm.trace(PASSAGE)
    assert [(head.layer, head.head) for head in idf.inspect_text(trace, layer=2, head=7).misleading] == [(2, 7)]
    assert {head.layer for head in idf.inspect_text(trace, layer=2).misleading} == {2}
    for wrong in ({"layer": 7}, {"layer": 0}, {"head": 12}):
        with pytest.raises(InputError, match="expected a"):
            idf.inspect_text(trace, **wrong)


def test_a_short_text_has_nothing_hidden(minilm):
    inspection = idf.inspect_text(minilm.trace("The baker sails on Tuesdays."))
    assert inspection.heads_with_null_space == 0
    assert "None of the 72 heads" in inspection.sentences()[0]


def test_json_has_no_nan(inspection):
    text = json.dumps(inspection.as_json(), allow_nan=False)
    assert json.loads(text)["heads"] == 72


def test_raw_norms_are_needed(minilm):
    with pytest.raises(InputError, match="raw_norms"):
        idf.inspect_text(minilm.trace(PASSAGE, form="factored"))
    assert idf.inspect_text(minilm.trace(PASSAGE, form="factored", raw_norms=True)).heads == 72


def test_a_large_negative_mean_counts_as_much_as_a_positive_one():
    received = xr.DataArray([0.1, -0.4, 0.3], dims="key", coords={"key_token": ("key", ["a", "b", "c"])})
    assert [token.token for token in _top(received)] == ["b", "c", "a"]
