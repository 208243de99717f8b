"""The reading in sentences: statements, sinks and their interventions, and what is said where something is missing."""

import numpy as np
import pytest

import identiformer as idf
from identiformer.errors import InputError, MemoryBudgetError, ModelWarning
from identiformer.readings import reading_as_json
from identiformer.readings.reading import FAILURES, Reading
from tests.models.families import ENCODER_DECODERS, SERVED, build, each, word_tokenizer, words

TEXT = "He said that the pie was his. She did not agree with him, and left it there on the table for all the others to eat."


@pytest.fixture(scope="module")
def reading(minilm):
    return idf.read(minilm, TEXT, layers=[1, 5], heads=[2, 4, 8], maps=True)


def test_overview_reports_the_means(reading):
    first = reading.sentences()[0]
    for name, phrase in (
        ("certified", "is certified"),
        ("contributing", "also contributes"),
        ("readable", "is also attributed to"),
    ):
        assert f"{float(reading.result[name].mean()):.0%} {phrase}" in first
    assert not reading.interrupted


def test_overview_names_what_was_read(minilm):
    """Shares of one head are not those of all attention on the text."""
    trace = minilm.trace(TEXT)
    for chosen, of in (({"layers": 2, "heads": 3}, " of layer 2, head 3"), ({"layers": [2, 4]}, " of 24 of 72 heads"), ({}, "")):
        unattributed = Reading(idf.attention_reading(trace, certify=False, **chosen))
        first, second = unattributed.overview()
        assert f": of the attention{of} on these {len(trace.tokens)} tokens" in first
        assert second == "To which tokens that is attributed is not computed yet."


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


def test_sinks_are_tested_by_interventions(minilm, reading):
    sink = reading.sinks[0]
    assert (sink.layer, sink.key_token) == (5, "[CLS]")
    effects = sink.effects
    assert effects.removed_change < 0.1
    assert float(effects.measured_scale) == pytest.approx(float(effects.predicted_scale), rel=0.1)
    assert effects.removed_output < effects.redistributed_output / 10
    assert f"scales the rest by {sink.scale:.2f}" in " ".join(reading.sentences())
    assert idf.sink_effects(minilm, minilm.trace(TEXT), 1, 2) is None


def test_without_certificates(minilm):
    quick = idf.read(minilm, TEXT, layers=[1, 2], certify=False)
    assert quick.sentences()[0].startswith("Before certification: of the attention of 24 of 72 heads on these")
    assert "weight" not in quick.result
    assert reading_as_json(quick)["reading"]["sentences"] == quick.sentences()
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
    monkeypatch.setattr(minilm, "memory", minilm.weights_size(len(minilm.trace(TEXT).tokens)) - 1)
    found = idf.read(minilm, TEXT, certify=False, maps=True, **chosen)
    assert " tokens in 2 chosen rows, at most " in found.sentences()[0]
    for name in ("weight", "contribution", "norm_share", "contributing_weight", "output_share"):
        np.testing.assert_allclose(found.result[name], recorded[name], atol=1e-5, err_msg=name)
    assert found.result.readable.sel(layer=5).isnull().all()  # own content is not computed
    assert all(sink.effects is None for sink in found.sinks)
    with pytest.raises(InputError, match="expected a query from 0 to"):
        idf.read(minilm, TEXT, queries=999)
    with pytest.raises(InputError, match="expected rows from 0 to"):
        minilm.trace(TEXT, rows=[-1])


def test_as_many_evenly_spaced_rows_as_fit_are_read():
    model = idf.load(build("llama", SERVED["llama"]), word_tokenizer())
    text, heads = words(40), model.weights_size(1) // 4
    tokens = len(model.trace(text).tokens)
    whole = idf.read(model, text, certify=False, maps=True).result
    # The weights of a trace do not fit, and all rows of its heads in eight bytes do not either.
    model.memory = model.weights_size(tokens) - 1
    reading = idf.read(model, text, certify=False)
    rows = reading.result["query"].values
    assert (rows[0], rows[-1]) == (0, tokens - 1)
    assert len(rows) == model.memory // (8 * tokens * heads)
    assert set(np.diff(rows)) <= {1, 2, 3}
    assert (
        f" tokens in {len(rows)} evenly spaced rows, as many as fit into memory (more with --memory, load(…, memory=)), at most"
        in reading.sentences()[0]
    )
    by_row = whole.weight.sel(query=rows)
    np.testing.assert_allclose(reading.result.top_weight, by_row.mean("query").max("key"), atol=1e-5)
    passing = np.minimum(by_row, whole.contribution.sel(query=rows).clip(min=0)).sum("key").mean("query")
    np.testing.assert_allclose(reading.result.contributing, passing, atol=1e-5)


def test_a_text_beyond_the_memory_of_maps_is_read(monkeypatch):
    """Shares are read head by head; only the maps of all heads at once are limited."""
    model = idf.load(build("bert", SERVED["bert"]), word_tokenizer())
    text, tokens = words(40), len(model.trace(words(40)).tokens)
    whole = idf.read(model, text, certify=False)
    model.memory = model.weights_size(tokens)
    reading = idf.read(model, text, certify=False)
    assert reading.result.equals(whole.result)
    with pytest.raises(MemoryBudgetError):
        idf.attention_reading(model.trace(text))


def test_own_content_beyond_memory_is_left_out_with_a_warning(monkeypatch):
    model = idf.load(build("bert", SERVED["bert"]), word_tokenizer())
    attribute = idf.token_attribution
    monkeypatch.setattr(
        "identiformer.measures.heads.own_content.token_attribution",
        lambda *arguments, **options: attribute(*arguments, **{**options, "memory": 10}),
    )
    with pytest.warns(ModelWarning, match="self-contributions are left out of the reading: expected at least .* MiB of memory"):
        reading = idf.read(model, words(20), certify=False)
    assert reading.result.readable.sel(layer=2).isnull().all()
    assert reading.result.contributing.notnull().all()


def test_memory_is_checked_before_anything_is_computed(monkeypatch):
    model = idf.load(build("bert", SERVED["bert"]), word_tokenizer(), memory=10**6)
    monkeypatch.setattr("identiformer.readings.reader.attribute", None)
    with pytest.raises(MemoryBudgetError, match=r"use a shorter text.*or allow more memory with --memory"):
        idf.read(model, words(60), maps=True)


def test_what_is_missing_is_said(reading):
    partial = reading.result.copy(deep=True)
    partial.certified[0, 0] = np.nan
    assert "5 of 6 heads were certified before the computation was interrupted." in Reading(partial).sentences()
    assert Reading(partial.assign_attrs(complete=0)).interrupted
    nothing = reading.result.copy(deep=True)
    nothing.certified[:] = np.nan
    assert Reading(nothing).sentences()[0].startswith("None of the 6 heads was certified")
    zero = reading.result.copy(deep=True)
    zero.zero_rows[0, 0] = 1
    assert "In 1 rows the head's output is zero" in " ".join(Reading(zero).sentences())
    unprojected = reading.result.assign_attrs(settings=reading.result.attrs["settings"].replace("projected", "values"))
    assert "contributions are those to the output before it" in " ".join(Reading(unprojected).sentences())


@pytest.mark.parametrize("family", each(["albert", "llama", "gpt_oss", "mistral", "gemma3_text"], {"gemma3_text"}))
def test_heads_of_every_kind_can_be_read(family):
    """Shared layers, grouped, with a learned sink, and windowed; on a text of eight words, and grouped on one of one."""
    model = idf.load(build(family, SERVED[family]), word_tokenizer())
    for text in (words(8), "w1")[: 2 if family == "llama" else 1]:
        result = idf.read(model, text, processes=1, maps=True).result
        np.testing.assert_allclose(result.contribution.sum("key"), 1, atol=1e-9)
        assert (result.readable <= result.certified + 1e-9).all()


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_encoder_decoders_can_be_read(kind):
    model = idf.load(build("t5", ENCODER_DECODERS["t5"]), word_tokenizer())
    reading = idf.read(model, words(12), words(7), kind=kind, processes=1, maps=True)
    # Tokens of the decoder are not attributed, so it is unknown whose content its vectors hold.
    assert ("attributed to the token" in reading.overview()[0]) == (kind != "decoder")
    assert ("is unknown: it cannot be computed" in " ".join(reading.sentences())) == (kind == "decoder")
    np.testing.assert_allclose(reading.result.contribution.sum("key"), 1, atol=1e-9)
