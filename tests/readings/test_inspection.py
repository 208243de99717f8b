"""The findings on one text, in sentences and numbers."""

import json

import pytest
import xarray as xr

import identiformer as idf
from identiformer.errors import InputError
from identiformer.readings.inspection import _top
from identiformer.texts import PASSAGE


@pytest.fixture(scope="module")
def inspection(minilm):
    return idf.inspect_trace(minilm.trace(PASSAGE))


def test_heads_are_ranked_by_correlation(inspection):
    correlations = [head.correlation for head in inspection.shown]
    assert correlations == sorted(correlations)
    assert correlations[0] == pytest.approx(float(inspection.result.correlation.min()))
    assert inspection.heads_with_null_space == inspection.heads == 72
    assert inspection.largest_nullity == inspection.tokens - 32


def test_tokens_that_receive_most(inspection):
    head = inspection.shown[0]
    one = inspection.result.sel(layer=head.layer, head=head.head)
    assert head.raw[0].position == int(one.raw.mean("query").argmax("key"))
    assert head.effective[0].position == int(abs(one.effective.mean("query")).argmax("key"))
    assert head.raw[0].token == str(one.key_token[head.raw[0].position].values)
    assert head.raw[0].token in head.sentence()


def test_chosen_layers_and_heads(minilm):
    trace = minilm.trace(PASSAGE)
    assert [(head.layer, head.head) for head in idf.inspect_trace(trace, layers=2, heads=7).shown] == [(2, 7)]
    assert {head.layer for head in idf.inspect_trace(trace, layers=2).shown} == {2}
    one, some = (idf.inspect_trace(trace, **chosen).sentences()[1] for chosen in ({"layers": 2, "heads": 7}, {"layers": 2}))
    assert one.startswith("In layer 2, head 7, the correlation of raw and effective attention is")
    assert some.startswith("Raw and effective attention differ most of the chosen heads in layer 2, head")
    for wrong in ({"layers": 7}, {"layers": [1, 0]}, {"heads": 12}):
        with pytest.raises(InputError, match="expected a"):
            idf.inspect_trace(trace, **wrong)


def test_short_text_has_no_null_space(minilm):
    inspection = idf.inspect_trace(minilm.trace("The baker sails on Tuesdays."))
    assert inspection.heads_with_null_space == 0
    assert "None of the 72 heads" in inspection.sentences()[0]


def test_json_has_no_nan(inspection):
    text = json.dumps(inspection.as_json(), allow_nan=False)
    assert json.loads(text)["heads"] == 72


def test_raw_norms_are_needed(minilm):
    with pytest.raises(InputError, match="raw_norms"):
        idf.inspect_trace(minilm.trace(PASSAGE, form="factored"))
    assert idf.inspect_trace(minilm.trace(PASSAGE, form="factored", raw_norms=True)).heads == 72


def test_negative_means_count_by_absolute_value():
    received = xr.DataArray([0.1, -0.4, 0.3], dims="key", coords={"key_token": ("key", ["a", "b", "c"])})
    assert [token.token for token in _top(received)] == ["b", "c", "a"]
