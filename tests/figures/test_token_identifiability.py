"""The data that figures of token identifiability show."""

import numpy as np
import pytest
from matplotlib.figure import Figure

import identiformer as idf
from tests.models.families import SERVED, build, word_tokenizer

RNG = np.random.default_rng(1)
CORPUS = [" ".join(f"w{number}" for number in RNG.integers(0, 30, 8)) for _ in range(20)]
OPTIONS = {"resplits": 2, "methods": ["naive cosine", "linear l2"]}


@pytest.fixture(scope="module")
def model():
    return idf.load(build("bert", SERVED["bert"]), word_tokenizer())


def lines(ax):
    return {line.get_label(): line for line in ax.lines if not line.get_label().startswith("_")}


def test_rates_intervals_and_a_second_model(model):
    result = idf.token_identifiability(model, CORPUS, **OPTIONS)
    ax = idf.figures.draw_token_identifiability(result, result.assign_attrs(model="another"))
    drawn = lines(ax)
    assert list(drawn) == ["naive cosine", "naive cosine, another", "linear L2", "linear L2, another", "chance"]
    np.testing.assert_allclose(drawn["linear L2"].get_ydata(), 100 * result.rate.sel(probe="linear l2"))
    assert drawn["linear L2, another"].get_linestyle() == "--"
    assert drawn["chance"].get_ydata()[0] == pytest.approx(100 * float(result.random_rate))
    edge = ax.collections[0].get_paths()[0].vertices[:, 1]
    low, high = (100 * result[name].sel(probe="naive cosine").values for name in ("rate_low", "rate_high"))
    assert (edge.min(), edge.max()) == (pytest.approx(low.min()), pytest.approx(high.max()))
    assert "exact position" in ax.get_ylabel()


def test_transfer_neighbors_and_learning_curve_show_their_rates(model):
    transfer = idf.token_transfer(model, CORPUS, **OPTIONS)
    drawn = lines(idf.figures.draw_token_transfer(transfer, "linear l2"))
    np.testing.assert_allclose(drawn["trained on layer 2"].get_ydata(), 100 * transfer.rate.sel(probe="linear l2", trained=2))
    neighbors = idf.token_neighbors(model, CORPUS, offsets=[-2, 1], **OPTIONS)
    drawn = lines(idf.figures.draw_token_neighbors(neighbors))
    assert list(drawn) == ["previous, 2 away", "next, 1 away", "chance"]
    np.testing.assert_allclose(drawn["next, 1 away"].get_ydata(), 100 * neighbors.rate.sel(probe="naive cosine", offset=1))
    curve = idf.learning_curve(model, CORPUS, **OPTIONS)
    drawn = lines(idf.figures.draw_learning_curve(curve, layer=1))
    np.testing.assert_allclose(drawn["linear L2"].get_ydata(), 100 * curve.rate.sel(probe="linear l2", layer=1))
    np.testing.assert_allclose(drawn["linear L2"].get_xdata(), [50, 80, 90, 100])


def test_draws_on_given_axes(model):
    ax = Figure().subplots()
    assert idf.figures.draw_token_identifiability(idf.token_steps(model, CORPUS, **OPTIONS), ax=ax) is ax
