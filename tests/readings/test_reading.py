"""The reading in sentences: statements, sinks and their interventions, and what is said where something is missing."""

import numpy as np
import pytest

import identiformer as idf
from identiformer.equations.certificates.contributions import CATEGORIES
from identiformer.errors import InputError
from identiformer.readings.reading import FAILURES, reading_of
from tests.models.families import ENCODER_DECODERS, SERVED, build, word_tokenizer, words

TEXT = "He said that the pie was his. She did not agree with him, and left it there on the table for all the others to eat."


@pytest.fixture(scope="module")
def reading(minilm):
    return idf.read(minilm, TEXT, layers=[1, 5], heads=[2, 4, 8])


def test_overview_reports_the_means(reading):
    first = reading.sentences()[0]
    for name, phrase in (("certified", "is certified"), ("contributing", "also contributes"), ("readable", "is also about")):
        assert f"{float(reading.result[name].mean()):.0%} {phrase}" in first
    assert not reading.interrupted


def test_statements_hold_up_or_say_why_not(reading):
    result = reading.result
    assert reading.holding
    assert reading.failing
    for statement in (*reading.holding, *reading.failing):
        entry = result.sel(layer=statement.layer, head=statement.head, query=statement.query, key=statement.key)
        assert statement.weight == float(entry.weight)
        assert statement.certified == float(entry.low)
        assert str(entry["part"].values[int(entry.category)]) == statement.category
        assert not bool(entry.query_special)
    assert all(statement.category == "readable" for statement in reading.holding)
    assert all(statement.category in FAILURES for statement in reading.failing)
    scores = [statement.readable for statement in reading.holding]
    assert scores == sorted(scores, reverse=True)


def test_it_is_said_if_statements_hold_up_in_layer_1_only(reading):
    result, (mixed, readable) = reading.result, (CATEGORIES.index("mixed"), CATEGORIES.index("readable"))
    first_only = reading_of(result.assign(category=result.category.where(result["layer"] == 1, mixed)))
    assert first_only.where_they_hold_up()[0].startswith("All are in layer 1: in later layers, no weight is mostly about")
    later_too = result.category.where((result["layer"] == 1) | (result["key"] != 3), readable)
    assert reading_of(result.assign(category=later_too)).where_they_hold_up() == []
    assert reading_of(result.sel(layer=[1])).where_they_hold_up() == []


def test_sinks_are_tested_by_interventions(minilm, reading):
    sink = reading.sinks[0]
    assert (sink.layer, sink.key_token) == (5, "[CLS]")
    effects = sink.effects
    assert effects.removed_change < 0.1
    assert effects.measured_scale == pytest.approx(effects.predicted_scale, rel=0.1)
    assert effects.removed_output.patched < effects.redistributed_output.patched / 10
    assert f"scales the rest by {sink.scale:.2f}" in " ".join(reading.sentences())
    assert idf.sink_effects(minilm, minilm.trace(TEXT), 1, 2) is None


def test_agreement_with_value_zeroing(minilm, reading):
    zeroing = idf.value_zeroing(minilm, TEXT, layers=[1, 5])
    expected = np.corrcoef(zeroing.effect.sel(layer=5, target=3), abs(reading.result.contribution.sel(layer=5, head=8, query=3)))
    assert np.isfinite(expected[0, 1])
    assert reading.result.contribution_agreement.shape == (2, 3)
    assert (zeroing.contribution_agreement.mean() > zeroing.effective_agreement.mean()).all()


def test_without_certificates(minilm):
    quick = idf.read(minilm, TEXT, layers=[1, 2], certify=False)
    assert quick.sentences()[0].startswith("Before certification: of the attention on these")
    assert "contribution_agreement" not in quick.result
    assert quick.as_json()["sentences"] == quick.sentences()
    table = quick.table()
    assert [(row.layer, row.head is None) for row in table] == [
        (1, True),
        (1, False),
        (1, False),
        (2, True),
        (2, False),
        (2, False),
    ]
    assert table[1].output_share == float(quick.result.output_share.sel(layer=1).max())


def test_chosen_rows_of_a_text_too_long_to_record(minilm, monkeypatch):
    chosen = {"layers": [1, 5], "queries": [2, 5]}
    recorded = idf.attention_reading(minilm.trace(TEXT), certify=False, **chosen)
    monkeypatch.setattr("identiformer.models.tracing.WEIGHTS_BUDGET", 0)
    found = idf.read(minilm, TEXT, certify=False, **chosen)
    assert " tokens in 2 chosen rows, at most " in found.sentences()[0]
    for name in ("weight", "contribution", "norm_share", "contributing_weight", "output_share"):
        np.testing.assert_allclose(found.result[name], recorded[name], atol=1e-5, err_msg=name)
    assert found.result.readable.sel(layer=5).isnull().all()  # own content is not computed
    assert all(sink.effects is None for sink in found.sinks)
    with pytest.raises(InputError, match="expected a query from 0 to"):
        idf.read(minilm, TEXT, queries=999)
    with pytest.raises(InputError, match="expected rows from 0 to"):
        minilm.trace(TEXT, rows=[-1])


def test_what_is_missing_is_said(reading):
    partial = reading.result.copy(deep=True)
    partial.certified[0, 0] = np.nan
    assert "5 of 6 heads were certified before the computation was interrupted." in reading_of(partial).sentences()
    nothing = reading.result.copy(deep=True)
    nothing.certified[:] = np.nan
    assert reading_of(nothing).sentences()[0].startswith("None of the 6 heads was certified")
    zero = reading.result.copy(deep=True)
    zero.contribution[0, 0, 0] = np.nan
    assert "In 1 rows the head's output is zero" in " ".join(reading_of(zero).sentences())
    unprojected = reading.result.assign_attrs(settings=reading.result.attrs["settings"].replace("projected", "values"))
    assert "contributions are those to the output before it" in " ".join(reading_of(unprojected).sentences())


@pytest.mark.parametrize("family", ["albert", "llama", "gpt_oss", "gemma3_text"])
def test_heads_of_every_kind_can_be_read(family):
    """Shared layers, grouped, with a learned sink, and windowed; on texts of eight words and of one."""
    model = idf.load(build(family, SERVED[family]), word_tokenizer())
    for text in (words(8), "w1"):
        result = idf.read(model, text, processes=1).result
        np.testing.assert_allclose(result.contribution.sum("key"), 1, atol=1e-9)
        assert (result.readable <= result.certified + 1e-9).all()


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_encoder_decoders_can_be_read(kind):
    model = idf.load(build("t5", ENCODER_DECODERS["t5"]), word_tokenizer())
    reading = idf.read(model, words(12), words(7), kind=kind, processes=1)
    # Tokens of the decoder are not attributed, so it is unknown whose content its vectors hold.
    assert ("about the token" in reading.sentences()[0]) == (kind != "decoder")
    np.testing.assert_allclose(reading.result.contribution.sum("key"), 1, atol=1e-9)
