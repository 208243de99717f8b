"""Attention over a picture: the grid that is drawn."""

import numpy as np
import pytest

import identiformer as idf
from identiformer.errors import InputError
from tests.models.tiny_vit import save_picture, save_tiny_vit


def test_each_patch_is_covered_by_its_weight(tmp_path):
    model = idf.load(save_tiny_vit(tmp_path))
    picture = idf.open_picture(model, save_picture(tmp_path / "ball.png"))
    result = idf.effective_attention(model.trace(picture.pixels))
    ax = idf.figures.draw_patches(result, picture.colors, layer=2, head=1, query=7)
    drawn = ax.images[1]
    row = result.raw.sel(layer=2, head=1, query=7).values
    np.testing.assert_allclose(np.asarray(drawn.get_array()).ravel(), row[1:])
    assert tuple(drawn.get_extent()) == (0, 32, 32, 0)
    (frame,) = ax.patches
    assert frame.get_xy() == (2 * 8, 1 * 8)  # position 7 is the patch 1,2
    assert f"[CLS] {row[0]:.2f}" in ax.get_title()
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("column of patches", "row of patches")


def test_a_text_has_no_patches(minilm, tmp_path):
    result = idf.effective_attention(minilm.trace("He said hello."))
    with pytest.raises(InputError, match="expected attention between the patches of an image, got that of minilm on a text"):
        idf.figures.draw_patches(result, np.zeros((4, 4, 3), np.uint8), 1, 0, 0)
