"""The largest part of a head's weight: the same category in sentences, on the command line and on the page."""

import re

import numpy as np
import pytest
import xarray as xr

import identiformer as idf
from identiformer.readings.heads import (
    HEAD_CATEGORIES,
    categories_sentence,
    determined_sentence,
    first_ambiguous,
    first_head,
    first_row,
    head_categories,
    head_parts,
    head_sentences,
)
from tests.models.families import SERVED, build, word_tokenizer, words


def shares(certified, contributing, readable):
    names = ("certified", "contributing", "readable")
    return xr.Dataset(
        {name: (("layer", "head"), [[value]]) for name, value in zip(names, (certified, contributing, readable), strict=True)}
    )


@pytest.fixture(scope="module")
def model():
    return idf.load(build("bert", SERVED["bert"]), word_tokenizer())


@pytest.fixture(scope="module")
def reading(model):
    return idf.read(model, words(20))


@pytest.mark.parametrize(
    ("numbers", "category"),
    [
        ((1.0, 0.9, 0.8), "readable"),
        ((1.0, 0.9, 0.2), "mixed"),
        ((0.9, 0.2, 0.1), "noncontributing"),
        ((0.2, 0.1, 0.1), "undetermined"),
        ((0.9, 0.8, np.nan), "contributing"),
        ((0.9, 0.2, np.nan), "noncontributing"),
        ((np.nan, np.nan, np.nan), ""),
    ],
)
def test_the_category_is_the_largest_part(numbers, category):
    assert head_categories(shares(*numbers)).item() == category
    parts = [part.item() for part in head_parts(shares(*numbers)).values()]
    if category:
        assert np.nansum(parts) == pytest.approx(1)
        assert max(parts, key=np.nan_to_num) == parts[list(head_parts(shares(*numbers))).index(category)]


def test_own_content_can_be_applied_to_a_summary(reading):
    """The page learns of own content after contributions, and must then agree with the library."""
    numbers = reading.result
    readable = (numbers.contributing_by_key * numbers.self_contribution).sum("key")
    np.testing.assert_allclose(readable, reading.result.readable, atol=1e-9)
    np.testing.assert_allclose(numbers.contributing_by_key.sum("key"), reading.result.contributing, atol=1e-9)


def test_sentences_name_the_category_and_the_key(reading):
    numbers = reading.result
    one = numbers.isel(layer=1, head=2)
    tokens = reading.result.key_token.values.tolist()
    token, certified = tokens[int(one.top_key)], np.ones(numbers.certified.shape, bool)
    sentence = head_sentences(numbers, tokens, certified)[1][2]
    name = head_categories(numbers).values[1, 2]
    part = float(head_parts(numbers)[name].values[1, 2])
    assert sentence.startswith(f"{name}. The largest part of its weight, {part:.0%}, ")
    assert f"‘{token}’ receives {float(one.top_weight):.0%} of its weight" in sentence
    assert sentence.endswith(f"It writes {float(one.output_share):.0%} of its layer's output.")
    assert head_sentences(numbers, tokens, ~certified)[1][2] == f"before certification, {sentence}"
    unread = numbers.assign(top_key=numbers.top_key.where(numbers["head"] != 2, -1))
    assert [row[2] for row in head_sentences(unread, tokens, certified)] == [""] * numbers.sizes["layer"]
    counted = categories_sentence(reading.result)
    assert sum(map(int, re.findall(r" in (\d+) \(", counted))) == numbers.certified.size
    assert set(head_categories(numbers).values.ravel()) <= set(HEAD_CATEGORIES)


def test_a_part_below_half_is_not_called_most():
    """Of three heads, two are noncontributing by their largest part, which is more than half of the weight of one."""
    numbers = xr.concat([shares(1.0, 0.3, 0.1), shares(1.0, 0.6, 0.3), shares(0.7, 0.65, 0.6)], "head")
    assert categories_sentence(numbers) == (
        "Of the weight of each of the 3 heads, the largest part is readable in 1 (passes every test: 60% of it on average, over "
        "half in 1), noncontributing in 2 (does not contribute to what the head writes: 55% of it on average, over half in 1)."
    )
    assert "most" not in categories_sentence(numbers)


def test_the_head_shown_first_is_called_an_example(reading):
    """What it writes is in its own sentence, and may be little."""
    numbers = reading.result
    layer, head, why = first_head(numbers)
    share = float(numbers.sel(layer=layer, head=head).sink_share)
    assert why == (
        f"(Shown first as an example: {share:.0%} of its weight is on attention sinks.)"
        if share
        else "(Shown first as an example.)"
    )
    assert first_head(numbers.assign(sink_share=numbers.sink_share * 0))[2] == "(Shown first as an example.)"


def test_the_first_row_is_divided_between_keys_that_contribute_and_keys_that_do_not(model):
    trace = model.trace(words(20))
    row = first_row(trace, 1, 2)
    result = idf.attention_reading(trace, layers=1, heads=2, certify=False).isel(layer=0, head=0)
    contributing = result.contributing_weight.sum("key").values
    ordinary = ~result.query_special.values
    score = contributing * (1 - contributing)
    assert ordinary[row]
    assert score[row] == pytest.approx(score[ordinary].max())


@pytest.mark.parametrize(
    ("nullity", "said"),
    [
        ([0, 0, 0], "determines every weight"),
        ([2, 2, 2], "does not determine every weight"),
        ([0, 0, 1], "From row 2 on"),
        ([[0, 1, 2], [0, 0, 1]], "From row 2 on"),
        ([[0, 1, 2], [0, 0, 1]], "In some heads that begins at row 1, because the values of keys are linearly dependent"),
        ([[0, 1, 2], [0, 0, 0]], "the outputs of 1 of 2 heads determine every weight"),
    ],
)
def test_whether_outputs_determine_weights(nullity, said):
    sentence = determined_sentence(3, 8, np.array([nullity]))
    assert said in sentence
    assert (first_ambiguous(np.array([nullity])) == 2) == ("From row 2" in sentence)


def test_the_first_row_of_a_decoder_has_a_choice():
    decoder = idf.load(build("llama", SERVED["llama"]), word_tokenizer())
    assert first_row(decoder.trace(words(20)), 1, 2) >= 10
