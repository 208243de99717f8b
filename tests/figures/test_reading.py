"""The data that the figures of a reading show."""

import numpy as np
import pytest
from matplotlib.figure import Figure

import identiformer as idf
from identiformer.equations import cascade
from identiformer.measures.heads.example import head_to_show
from tests.models.families import SERVED, build, word_tokenizer, words


@pytest.fixture(scope="module")
def model():
    return idf.load(build("bert", SERVED["bert"]), word_tokenizer())


@pytest.fixture(scope="module")
def result(model):
    attribution = idf.token_attribution(model, words(16), directions=2)
    return idf.attention_reading(model.trace(words(16)), attribution)


def widths(ax):
    return {bars.get_label().split(":")[0]: [bar.get_width() for bar in bars] for bars in ax.containers}


def test_bars_are_the_parts_of_each_layer(result):
    ax = idf.figures.draw_cascade(result)
    shown = widths(ax)
    assert list(shown) == ["readable", "mixed", "noncontributing", "free"]
    np.testing.assert_allclose(shown["readable"], result.readable.mean("head"))
    np.testing.assert_allclose(shown["mixed"], (result.contributing - result.readable).mean("head"))
    np.testing.assert_allclose(shown["noncontributing"], (result.certified - result.contributing).mean("head"))
    np.testing.assert_allclose(np.sum(list(shown.values()), 0), 1)
    assert [label.get_text() for label in ax.get_yticklabels()] == [f"layer {layer}" for layer in result["layer"].values]
    assert ax.get_title("left").startswith(f"{float(result.readable.mean()):.0%} of the attention of")


def test_bars_without_attribution_and_certificates(model):
    result = idf.attention_reading(model.trace(words(16)), certify=False)
    ax = idf.figures.draw_cascade(result, Figure().subplots())
    shown = widths(ax)
    assert list(shown) == ["contributing", "noncontributing"]  # nothing is known to be free
    np.testing.assert_allclose(shown["contributing"], result.contributing.mean("head"))
    assert ax.get_title("left").startswith("At most ")


def test_bars_leave_out_heads_that_were_not_certified(result):
    missing = (result["head"] == 1) | (result["layer"] == 2)
    partial = result.assign({name: result[name].where(~missing) for name in ("certified", "contributing", "readable")})
    shown = widths(idf.figures.draw_cascade(partial))
    np.testing.assert_allclose(shown["readable"][0], result.readable.isel(layer=0).drop_sel(head=1).mean())
    assert np.isnan(shown["readable"][1])


def test_maps_show_weight_and_what_is_readable(result):
    axes = list(Figure().subplots(1, 2))
    assert idf.figures.draw_readable_map(result, 2, 3, axes) is axes
    one = result.sel(layer=2, head=3)
    raw, readable = (ax.images[0] for ax in axes)
    np.testing.assert_array_equal(raw.get_array(), one.weight)
    expected = cascade(one.weight.values, one.low.values, one.contribution_low.values, one.self_contribution.values).readable
    np.testing.assert_allclose(readable.get_array(), expected)
    assert raw.norm is readable.norm
    assert f"{float(one.readable):.0%}" in axes[1].get_title()
    assert [label.get_text() for label in axes[0].get_yticklabels()] == list(result.query_token.values)


def test_maps_without_attribution_show_what_contributes(model):
    result = idf.attention_reading(model.trace(words(16)), certify=False)
    axes = idf.figures.draw_readable_map(result, 2, 0)
    expected = np.minimum(result.weight, result.contribution.clip(min=0)).values[1, 0]
    np.testing.assert_allclose(axes[1].images[0].get_array(), expected)
    assert "contributes" in axes[1].get_title()


def test_head_to_show_matters_and_has_both_kinds_of_weight(result):
    shares = {name: result[name] * 0 for name in ("output_share", "readable", "sink_share")}
    for name, value in (("output_share", 0.5), ("readable", 0.4)):
        shares[name][0, 1] = shares[name][1, 2] = value
    assert head_to_show(result.assign(shares)) == (1, 1)  # without sinks, the first of equals
    shares["sink_share"][1, 2] = 0.3
    assert head_to_show(result.assign(shares)) == (2, 2)
    unknown = {**shares, "self_contribution": result.self_contribution * np.nan, "contributing": shares["readable"]}
    assert head_to_show(result.assign(unknown)) == (2, 2)
