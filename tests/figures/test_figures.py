"""The data that figures show, not their pixels."""

import numpy as np
import pytest
from matplotlib.figure import Figure

import identiformer as idf
from identiformer.texts import PASSAGE
from tests.models.families import SERVED, build, word_tokenizer, words
from tests.runs.tiny import texts


@pytest.fixture(scope="module")
def result():
    return idf.effective_attention(idf.load(build("bert", SERVED["bert"]), word_tokenizer()).trace(words(20)))


def test_maps_share_one_scale(result):
    axes = idf.figures.draw_attention_maps(result, layer=2, head=3)
    images = [ax.images[0] for ax in axes]
    for image, name in zip(images, ("raw", "effective", "null"), strict=True):
        np.testing.assert_array_equal(image.get_array(), result[name].sel(layer=2, head=3))
        assert (image.norm.vmin, image.norm.vmax) == (images[0].norm.vmin, images[0].norm.vmax)
        assert image.norm.vmin == -image.norm.vmax
    assert [label.get_text() for label in axes[0].get_yticklabels()] == list(result.query_token.values)


def test_draws_on_given_axes(result):
    axes = list(Figure().subplots(1, 3))
    assert idf.figures.draw_attention_maps(result, 1, 0, axes) is axes
    ax = Figure().subplots()
    assert idf.figures.draw_layer_summary(result, ax) is ax


def test_summary_shows_heads_and_means(result):
    ax = idf.figures.draw_layer_summary(result)
    assert [line.get_label() for line in ax.lines] == [text.get_text() for text in ax.get_legend().get_texts()]
    np.testing.assert_allclose(ax.lines[0].get_ydata(), result.correlation.mean("head"))
    np.testing.assert_allclose(ax.collections[1].get_offsets()[:, 1], result.null_mass.values.ravel())


def test_token_text_is_never_a_formula(result):
    strange = result.assign_coords(query_token=("query", ["$x^$", *result.query_token.values[1:]]))
    axes = idf.figures.draw_attention_maps(strange, 1, 0)
    axes[0].figure.savefig("/dev/null", format="svg")
    assert axes[0].get_yticklabels()[0].get_text() == "$x^$"


def test_intervals_match_the_result(minilm):
    found = idf.ambiguity(minilm.trace(PASSAGE), 4, 3, queries=17)
    ax = idf.figures.draw_intervals(found, 17, "farthest")
    assert ax.get_xlabel() == "attention weight"
    own, other = ax.lines
    labels = [label.get_text() for label in ax.get_yticklabels()]
    keys = [int(label.split()[-1]) for label in labels]
    np.testing.assert_allclose(own.get_xdata(), found.raw.values[0, keys])
    np.testing.assert_allclose(other.get_xdata(), found.alternatives.sel(alternative="farthest").values[0, keys])
    certain, reached = ax.containers
    for bars, low, high in ((certain, "low", "high"), (reached, "low_reached", "high_reached")):
        np.testing.assert_allclose([bar.get_x() for bar in bars], found[low].values[0, keys], atol=1e-12)
        np.testing.assert_allclose([bar.get_x() + bar.get_width() for bar in bars], found[high].values[0, keys], atol=1e-12)
    assert [text.split()[0] for text in labels] == [str(found.key_token.values[key]) for key in keys]


@pytest.fixture(scope="module")
def attribution(minilm):
    return idf.token_attribution(minilm, "He said that the pie was not his, and nobody asked him.", seed=2)


def test_token_attribution_marks_main_contributors(attribution):
    ax = idf.figures.draw_token_attribution(attribution, 5)
    one = attribution.sel(target=5)
    np.testing.assert_allclose(ax.images[0].get_array(), one.contribution)
    certain, undecided = ax.lines
    decided = one.main_contributor_certain.values
    np.testing.assert_array_equal(certain.get_xdata(), one.main_contributor.values[decided])
    np.testing.assert_array_equal(undecided.get_xdata(), one.main_contributor.values[~decided])
    assert certain.get_markerfacecolor() != undecided.get_markerfacecolor()
    assert [label.get_text() for label in ax.get_xticklabels()] == list(one.source_token.values)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["1", "2", "3", "4", "5", "6"]
    assert ax.images[0].origin == "upper"


def test_self_contribution_boxes_and_line(attribution):
    ax = idf.figures.draw_self_contribution(attribution)
    medians = [line.get_ydata()[0] for line in ax.lines if len(line.get_ydata()) == 2 and line.get_linewidth() == 2]
    np.testing.assert_allclose(medians, attribution.self_contribution.median("target"))
    strangers = next(line for line in ax.lines if line.get_label().startswith("tokens"))
    np.testing.assert_allclose(strangers.get_ydata(), (attribution.main_contributor != attribution.target).mean("target"))


def test_neighbor_shares_sum_to_one_over_layers(attribution):
    ax = idf.figures.draw_contribution_by_neighbors(attribution)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == list(attribution["group"].values)
    for line in ax.lines:
        assert line.get_ydata().sum() == pytest.approx(1)


def test_distance_zero_is_left_out(attribution):
    ax = idf.figures.draw_contribution_by_distance(attribution)
    assert [line.get_label() for line in ax.lines] == ["layer 1", "layer 3", "layer 6"]
    own = ax.lines[0].get_xdata() == 0
    assert np.isnan(ax.lines[0].get_ydata()[own]).all()
    np.testing.assert_allclose(ax.lines[1].get_ydata()[~own], attribution.by_distance.sel(layer=3).values[~own])


def test_over_layers_shows_heads_and_means(result):
    flat = result.correlation.mean("head")
    ax = idf.figures.draw_over_layers({"heads": result.null_mass, "none": flat * np.nan, "flat": flat}, "a share")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["heads", "flat"]  # what is nowhere is left out
    np.testing.assert_allclose(ax.lines[0].get_ydata(), result.null_mass.mean("head"))
    np.testing.assert_allclose(ax.collections[0].get_offsets()[:, 1], result.null_mass.values.ravel())
    np.testing.assert_allclose(ax.lines[1].get_ydata(), flat)
    colors = [line.get_color() for line in ax.lines]
    assert len(set(colors)) == 2
    assert ax.get_ylabel() == "a share"
    assert idf.figures.draw_over_layers({"alone": flat}, "a share").get_legend() is None


def test_percent_ticks_are_exact(result):
    ax = idf.figures.draw_over_layers({"a": result.null_mass * 0.1}, "a share")
    ax.set_ylim(0, 0.18)
    ax.set_yticks([0.0, 0.025, 0.1, 0.125])
    assert [label.get_text() for label in ax.get_yticklabels()] == ["0%", "2.5%", "10%", "12.5%"]


def test_corpus_figures(tiny, tmp_path):
    run = idf.run(texts(6), tiny, ["effective_attention", "token_attribution"], out=tmp_path / "run", directions=2)
    attention, origins = run["effective_attention"], run["token_attribution"]
    ax = idf.figures.draw_received_by_kind(attention, "effective")
    np.testing.assert_allclose(ax.lines[0].get_ydata(), attention.effective_received.sel(kind="[CLS]").mean("head"))
    ax = idf.figures.draw_between_separators(attention, "raw")
    np.testing.assert_allclose(ax.lines[0].get_ydata(), attention.raw_from_others.mean("head"))
    ax = idf.figures.draw_first_token(origins)
    shown = origins.cls_by_position.sel(layer=1).values
    np.testing.assert_allclose(ax.lines[0].get_ydata(), shown[shown > 0])
    assert ax.lines[0].get_xdata()[0] == 1  # what it keeps of itself would outshine the rest
