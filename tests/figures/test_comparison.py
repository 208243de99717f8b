import numpy as np
import pytest

import identiformer as idf
from identiformer.figures import draw_comparison, draw_comparison_layers
from tests.runs.tiny import texts

YARDSTICKS = ["value_zeroing_head", "value_zeroing_head_words", "value_mean_head"]


@pytest.fixture(scope="module")
def result(tiny):
    return idf.faithfulness(tiny, texts(4), maps=["raw", "norm_layer", "contribution"], yardsticks=YARDSTICKS)


def test_each_panel_shows_a_yardstick_and_its_variants(result):
    axes = draw_comparison(result)
    assert [ax.get_title() for ax in axes] == ["value zeroing\nhead outputs", "value mean-ablation\nhead outputs"]
    order = np.argsort(-result.score[:, 0].values, kind="stable")
    shown, words = axes[0].collections[1], axes[0].collections[3]
    np.testing.assert_allclose(shown.get_offsets()[:, 0], result.score[:, 0].values[order])
    np.testing.assert_allclose(words.get_offsets()[:, 0], result.score[:, 1].values[order])
    bars = [path.vertices[:, 0] for path in axes[0].collections[0].get_paths()]
    np.testing.assert_allclose(bars, np.stack([result.score_low[:, 0], result.score_high[:, 0]], -1)[order])
    labels = [label.get_text() for label in axes[0].get_yticklabels()]
    assert labels == [str(title) for title in result.map_title.values[order]]


def test_layers_are_lines_with_bands(result):
    axes = draw_comparison_layers(result)
    assert len(axes) == 2
    for ax, yardstick in zip(axes, (YARDSTICKS[0], YARDSTICKS[2]), strict=True):
        assert len(ax.collections) == len(ax.lines) == 3
        raw = next(line for line in ax.lines if line.get_label() == "raw attention")
        np.testing.assert_allclose(raw.get_ydata(), result.layer_score.sel(map="raw", yardstick=yardstick))
