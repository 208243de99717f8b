"""Three figures of the quick sample for a real model and real data."""

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
        ("2a", "linear probes recover more tokens than no probe"),
        ("5b", "most raw attention from other tokens to [SEP] is in the null component"),
        ("6", "[CLS] and [SEP] vanish from A⊥ and remain in A∥"),
    ):
        assert verdicts[expected] == "holds"
