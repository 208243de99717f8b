"""Three figures of the quick sample on a real model and real data."""

import numpy as np
import pytest
from matplotlib.image import imread

import identiformer as idf

FIGURES = ("2a", "5b", "6")


@pytest.mark.shared
@pytest.mark.slow
def test_three_figures_of_the_quick_sample(shared, tmp_path):
    model = idf.load(shared / "models" / "gte-small")
    done = idf.reproduce(model, shared / "data", tmp_path / "out", figures=FIGURES, quick=True)
    assert done.drawn == FIGURES
    for number in FIGURES:
        picture = imread(tmp_path / "out" / "figures" / f"{number}.png")
        assert picture[..., :3].min() < 0.2 < 0.9 < np.median(picture[..., :3])  # dark lines on white paper
    verdicts = {(grade.figure, grade.says): grade.verdict for grade in done.grades}
    for expected in (
        ("2a", "a learned map finds more than none"),
        ("5b", "most of the raw attention of others to [SEP] is null"),
        ("6", "[CLS] and [SEP] vanish from A⊥, and stand in A∥"),
    ):
        assert verdicts[expected] == "holds"
