"""Scores of maps on one text and on several, of registered maps and of those that a user brings."""

import json

import numpy as np
import pytest

import identiformer as idf
from identiformer.equations.attribution.agreement import row_correlation
from identiformer.errors import InputError, UnsupportedModelError
from identiformer.measures import contest
from identiformer.measures.faithfulness import YARDSTICKS
from identiformer.measures.maps import MAPS, MapKind
from tests.models.families import word_tokenizer, words
from tests.models.perturbed import network_of

TEXT = words(6)
YARDSTICK = ["value_zeroing"]


@pytest.fixture(scope="module")
def model():
    return idf.load(network_of("bert"), word_tokenizer())


def test_scores_are_those_of_value_zeroing(minilm):
    text = "The islanders wrote to the minister, and the minister wrote back. They did not agree, and went on sailing."
    result = idf.faithfulness(minilm, text, maps=["raw", "contribution"], yardsticks=["value_zeroing", "value_zeroing_words"])
    for yardstick, special in (("value_zeroing", True), ("value_zeroing_words", False)):
        expected = idf.value_zeroing(minilm, text, special=special)
        for name in ("raw", "contribution"):
            means = expected[f"{name}_agreement"].mean("target")
            np.testing.assert_allclose(result.score.sel(map=name, yardstick=yardstick), means, atol=2e-6)
    assert np.isnan(result.signed_score.sel(map="raw")).all()
    assert result.equal_to_raw.sel(map="raw").all()
    assert not result.equal_to_raw.sel(map="contribution").any()


def test_a_text_no_longer_than_the_rank_of_its_values_is_marked(minilm):
    short = idf.faithfulness(minilm, "He said.", maps=["raw"], yardsticks=["value_zeroing_head"])
    assert (short["rank"] == int(short.tokens)).all()
    long = idf.faithfulness(minilm, "He said hello to them. " * 10, maps=["raw"], yardsticks=["value_zeroing_head"])
    assert (long["rank"] == 32).all()
    assert int(long.tokens) > 32


def test_arrays_and_functions_of_a_user_are_judged_like_maps(model):
    raw = idf.maps(model, TEXT, kinds=["raw"]).score.values[0]
    brought = {"mine": raw, "function": lambda subject: MAPS["raw"].compute(subject), "raw": "raw"}
    result = idf.faithfulness(model, TEXT, maps=brought, yardsticks=YARDSTICK)
    for name in brought:
        np.testing.assert_allclose(result.score.sel(map=name), result.score.sel(map="raw"), rtol=1e-6)
        assert result.equal_to_raw.sel(map=name).all()
    random = np.random.default_rng(0).random(raw.shape)
    judged = idf.faithfulness(model, TEXT, maps={"mine": random}, yardsticks=YARDSTICK).score[0, 0]
    effect, visible = idf.value_zeroing(model, TEXT).effect.values, np.ones(raw.shape, bool)
    np.testing.assert_allclose(judged, np.nanmean(row_correlation(effect, random, visible), -1), rtol=1e-6)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((2, 3, 3)), r"shape \(2, 8, 8\) \(layer query key\), got \(2, 3, 3\); compute it on the same text"),
        (np.zeros(8), "expected a yardstick that judges explanations of the output, such as mine, got none; add one"),
        (np.full((2, 8, 8), np.nan), "finite scores in the map 'mine', got NaN"),
        (np.full((2, 8, 8), "a"), "expected numbers as the map 'mine'"),
        ("no such map", "expected maps among raw"),
    ],
)
def test_arrays_that_are_not_maps_of_the_text_are_rejected(model, array, message):
    with pytest.raises(InputError, match=message):
        idf.faithfulness(model, TEXT, maps={"mine": array}, yardsticks=YARDSTICK)


def test_an_array_of_one_score_per_token_is_judged_as_an_explanation(model):
    yardsticks = [next(name for name, yardstick in YARDSTICKS.items() if yardstick.judges_explanations)]
    result = idf.faithfulness(model, TEXT, maps={"mine": np.arange(8.0)}, yardsticks=yardsticks)
    assert result.explanation_score.shape == (1, 1)
    with pytest.raises(InputError, match=r"shape \(8,\) \(source\), got \(3,\)"):
        idf.faithfulness(model, TEXT, maps={"mine": np.zeros(3)}, yardsticks=yardsticks)
    with pytest.raises(InputError, match="yardstick that judges explanations of the output, such as mine, got none"):
        idf.faithfulness(model, TEXT, maps={"mine": np.zeros(8), "raw": "raw"}, yardsticks=YARDSTICK)


def test_an_array_is_a_map_of_one_text_even_if_another_is_as_long(model):
    with pytest.raises(InputError, match="expected one text for the array 'mine', got 2; pass a function"):
        idf.faithfulness(model, [TEXT, TEXT], maps={"mine": np.ones((2, 8, 8))}, yardsticks=YARDSTICK)


@pytest.mark.parametrize("names", [[], ["value_zeroing", "no such"]])
def test_unknown_yardsticks_are_rejected(model, names):
    with pytest.raises(InputError, match="expected yardsticks among value_zeroing, "):
        idf.faithfulness(model, TEXT, yardsticks=names)


@pytest.fixture
def unsupported(monkeypatch):
    def compute_map(subject):
        raise UnsupportedModelError("nothing supports this map; use another.")

    kind = MapKind("nowhere", "nowhere", "", "", "1", compute_map)
    monkeypatch.setitem(MAPS, "nowhere", kind)
    return kind


def test_what_a_model_does_not_support_is_named_with_the_reason(model, unsupported):
    result = idf.faithfulness(model, TEXT, yardsticks=YARDSTICK)
    assert json.loads(result.attrs["unsupported"]) == {"nowhere": "nothing supports this map; use another."}
    assert np.isnan(result.score.sel(map="nowhere")).all()
    assert np.isfinite(result.score.sel(map="raw")).all()
    with pytest.raises(UnsupportedModelError, match="nothing supports"):
        idf.faithfulness(model, TEXT, maps=["raw", "nowhere"])
    with pytest.raises(UnsupportedModelError, match="nothing supports"):
        contest.require_supported(model, idf.Example(TEXT), ["nowhere"], None)


def test_several_texts_are_averaged_with_intervals(model):
    texts = [words(4), (words(5), words(3)), words(7)]
    several = idf.faithfulness(model, texts, maps=["raw", "contribution"], yardsticks=YARDSTICK)
    single = [
        idf.faithfulness(model, idf.Example(words(count)), maps=["raw", "contribution"], yardsticks=YARDSTICK) for count in (4, 7)
    ]
    for index, one in ((0, single[0]), (2, single[1])):
        np.testing.assert_allclose(several.example_score[index], one.score.mean("layer"), atol=1e-6)
    np.testing.assert_allclose(several.score, several.example_score.mean("example"), atol=1e-8)
    difference = several.example_score.sel(map="contribution") - several.example_score.sel(map="raw")
    np.testing.assert_allclose(several.difference.sel(map="contribution"), difference.mean("example"), atol=1e-8)
    assert (several.score_low <= several.score).all()
    assert (several.score <= several.score_high).all()
    assert (several.score_examples == 3).all()
    assert float(several.short_share) == np.mean(several.tokens.values[:, None] <= several["rank"].values)


def test_every_name_is_a_yardstick_once():
    assert all(name == yardstick.name for name, yardstick in YARDSTICKS.items())
    assert all(yardstick.same_as in YARDSTICKS for yardstick in YARDSTICKS.values() if yardstick.same_as)
