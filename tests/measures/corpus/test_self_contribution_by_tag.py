"""Self-contribution by tag over a corpus: against the shares of single texts, sorted by their tags in plain NumPy."""

from dataclasses import replace

import numpy as np
import pytest

import identiformer as idf
from identiformer.measures.corpus import MEASURES, measure
from identiformer.measures.corpus.self_contribution_by_tag import TAGS
from identiformer.models import load
from tests.models.families import SERVED, build, word_tokenizer
from tests.runs.tiny import texts

CYCLE = ("NN", "VBZ", "IN", "$")


class Cyclic:
    """A tagger that goes round; NLTK's would call every word of the tiny model a noun."""

    def tag(self, words):
        return [(word, CYCLE[place % len(CYCLE)]) for place, word in enumerate(words)]


@pytest.fixture(scope="module")
def tiny():
    return load(build("bert", SERVED["bert"]), word_tokenizer())


@pytest.fixture(autouse=True)
def _tagger(monkeypatch):
    monkeypatch.setattr("identiformer.texts.tags.load_tagger", Cyclic)
    name = "self_contribution_by_tag"
    monkeypatch.setitem(MEASURES, name, replace(MEASURES[name], check=None))


@pytest.fixture
def asked(monkeypatch):
    """How often attribution is computed."""
    calls = []
    whole = measure.token_attribution
    monkeypatch.setattr(measure, "token_attribution", lambda *given, **named: (calls.append(1), whole(*given, **named))[1])
    return calls


def cycle(model, example):
    """The tags of a pair's tokens, told from where its separators stand."""
    tokens = model.tokens(example.text, example.pair).texts
    end = tokens.index("[SEP]")
    first, second = end - 1, len(tokens) - end - 2
    return ["[CLS]", *(CYCLE * 5)[:first], "[SEP]", *(CYCLE * 5)[:second], "[SEP]"]


def test_shares_are_those_of_single_texts_by_tag(tiny, tmp_path, asked):
    own = texts(5)
    run = idf.run(own, tiny, ["token_attribution", "self_contribution_by_tag"], out=tmp_path / "run")
    assert len(asked) == len(own)
    found = run["self_contribution_by_tag"]
    shares = np.concatenate(
        [idf.token_attribution(tiny, each.text, each.pair, seed=place).self_contribution for place, each in enumerate(own)], -1
    )
    tags = np.array([tag for each in own for tag in cycle(tiny, each)])
    assert tuple(found["tag"].values) == TAGS
    for tag in TAGS:
        one, which = found.sel(tag=tag), tags == tag
        assert int(one.tokens) == which.sum()
        if not which.any():
            assert np.isnan(one.self_contribution).all()
            continue
        np.testing.assert_allclose(one.self_contribution, shares[:, which].mean(-1), atol=1e-6)
        for level in found["quantile"].values:
            exact = np.quantile(shares[:, which], level, axis=-1, method="inverted_cdf")
            assert np.abs(one.self_contribution_quantiles.sel(quantile=level) - exact).max() <= float(found.quantile_error) + 1e-6
    assert int(found.tokens.sum()) == int(run["texts"].tokens)
    assert "nltk" in run.settings.versions
    assert "## Self contribution by tag" in run.summary
    assert f"| [SEP] | {2 * len(own)} |" in run.summary
    assert (run.path / "figures" / "self_contribution_by_tag.png").is_file()


def test_the_figure_shows_a_layer_in_the_order_of_the_last(tiny, tmp_path):
    found = idf.run(texts(3), tiny, ["self_contribution_by_tag"], out=tmp_path / "run")["self_contribution_by_tag"]
    medians = found.self_contribution_quantiles.sel(quantile=0.5)
    last = medians.isel(layer=-1).to_series().dropna().sort_values(ascending=False, kind="stable")
    ax = idf.figures.draw_self_contribution_by_tag(found, 1)
    labels = [label.get_text() for label in ax.get_xticklabels()]
    assert labels == [f"{tag}  {int(found.tokens.sel(tag=tag))}" for tag in last.index]
    drawn = [line.get_ydata()[0] for line in ax.lines if line.get_linewidth() == 2]
    np.testing.assert_allclose(drawn, medians.sel(layer=1, tag=list(last.index)))
    assert idf.figures.draw_self_contribution_by_tag(found, 2, ax) is ax
    ax.figure.savefig("/dev/null", format="svg")  # a tag such as $ is no formula


def test_a_token_with_no_known_tag_is_counted_as_other(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(Cyclic, "tag", lambda self, words: [(word, "odd") for word in words])
    found = idf.run(texts(2), tiny, ["self_contribution_by_tag"], out=tmp_path / "run")["self_contribution_by_tag"]
    assert int(found.tokens.sel(tag="other")) == int(found.tokens.sum()) - 2 * 3
