"""Attribution over a corpus: self-contribution by tag and contributions to [CLS], against single texts in plain NumPy."""

import json
from dataclasses import replace

import numpy as np
import pytest

import identiformer as idf
from identiformer.errors import MissingPackageError
from identiformer.measures.attribution import hidden_token
from identiformer.measures.corpus.token_attribution import TAGS
from identiformer.models import load
from tests.models.families import SERVED, build, word_tokenizer
from tests.runs.tiny import bits, texts

pytestmark = pytest.mark.usefixtures("undrawn")

CYCLE = ("NN", "VBZ", "IN", "$")


class Cyclic:
    """A tagger that cycles through tags; NLTK's tags every word of the tiny model as a noun."""

    def tag(self, words):
        return [(word, CYCLE[place % len(CYCLE)]) for place, word in enumerate(words)]


@pytest.fixture(scope="module")
def tiny():
    return load(build("bert", SERVED["bert"]), word_tokenizer())


@pytest.fixture(autouse=True)
def _tagger(monkeypatch):
    for home in ("texts.tagging", "measures.corpus.token_attribution"):
        monkeypatch.setattr(f"identiformer.{home}.load_tagger", Cyclic)


@pytest.fixture
def no_tagger(monkeypatch):
    def missing():
        raise MissingPackageError("no tagger here")

    for home in ("texts.tagging", "measures.corpus.token_attribution"):
        monkeypatch.setattr(f"identiformer.{home}.load_tagger", missing)


@pytest.fixture
def asked(monkeypatch):
    """How often attribution is computed."""
    calls = []
    whole = hidden_token.token_attribution
    monkeypatch.setattr(hidden_token, "token_attribution", lambda *given, **named: (calls.append(1), whole(*given, **named))[1])
    return calls


def cycle(model, example):
    """The tags of a pair's tokens, from the positions of its separators."""
    tokens = model.tokens(example.text, example.pair).texts
    end = tokens.index("[SEP]")
    first, second = end - 1, len(tokens) - end - 2
    return ["[CLS]", *(CYCLE * 5)[:first], "[SEP]", *(CYCLE * 5)[:second], "[SEP]"]


def test_quantiles_by_tag_match_single_texts(tiny, tmp_path, asked):
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


def test_figure_orders_tags_by_the_last_layer(tiny, tmp_path):
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


def test_unknown_tag_counts_as_other(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(Cyclic, "tag", lambda self, words: [(word, "odd") for word in words])
    found = idf.run(texts(2), tiny, ["self_contribution_by_tag"], out=tmp_path / "run")["self_contribution_by_tag"]
    assert int(found.tokens.sel(tag="other")) == int(found.tokens.sum()) - 2 * 3


NAME = "self_contribution_by_tag"


def tagged(count):
    """Pairs of words with the tags of the cyclic tagger."""
    return [
        replace(
            each, tags=" ".join((CYCLE * 5)[: len(each.text.split())]), pair_tags=" ".join((CYCLE * 5)[: len(each.pair.split())])
        )
        for each in texts(count)
    ]


def test_tagged_corpus_needs_no_tagger_and_resumes(tiny, tmp_path, no_tagger, monkeypatch):
    own = tagged(34)  # two shards, of which the second is small
    path = tmp_path / "own.jsonl"
    keys = ("sentence1", "sentence2", "sentence1 tags", "sentence2 tags")
    records = [dict(zip(keys, (each.text, each.pair, each.tags, each.pair_tags), strict=True)) for each in own]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    run = idf.run(path, tiny, [NAME], out=tmp_path / "run", directions=2)
    assert "nltk" not in run.settings.versions
    max((tmp_path / "run" / "shards").iterdir()).unlink()
    assert bits(idf.run(path, tiny, [NAME], out=tmp_path / "run", directions=2, resume=True)) == bits(run)
    expected = [tag for each in own for tag in cycle(tiny, each)]
    assert [int(run[NAME].tokens.sel(tag=tag)) for tag in TAGS] == [expected.count(tag) for tag in TAGS]
    monkeypatch.setattr("identiformer.texts.tagging.load_tagger", Cyclic)
    monkeypatch.setattr("identiformer.measures.corpus.token_attribution.load_tagger", Cyclic)
    other = idf.run(texts(34), tiny, [NAME], out=tmp_path / "other", directions=2)
    assert other.settings.corpus_hash != run.settings.corpus_hash
    np.testing.assert_array_equal(other[NAME].self_contribution, run[NAME].self_contribution)


def test_untagged_corpus_needs_a_tagger_before_the_run(tiny, tmp_path, request):
    own = tagged(3)
    own[2] = replace(own[2], pair_tags=None)
    run = idf.run(own, tiny, [NAME], out=tmp_path / "run", directions=2)
    assert "nltk" in run.settings.versions
    whole = idf.run(tagged(3), tiny, [NAME], out=tmp_path / "whole", directions=2)
    np.testing.assert_array_equal(run[NAME].self_contribution, whole[NAME].self_contribution)
    request.getfixturevalue("no_tagger")
    with pytest.raises(MissingPackageError):
        idf.run(own, tiny, [NAME], out=tmp_path / "refused")
    assert not (tmp_path / "refused").exists()
    idf.run(own, tiny, [NAME], out=tmp_path / "limited", limit=2, directions=2)


def test_tags_of_the_corpus_take_precedence(tiny, tmp_path):
    own = [idf.Example("w1 w2 w3 w4 w5", tags="-LRB- NNP [SEP] [CLS] mine")]
    found = idf.run(own, tiny, [NAME], out=tmp_path / "run", directions=2)[NAME]
    counts = {str(tag): int(count) for tag, count in zip(found["tag"].values, found.tokens.values, strict=True) if count}
    assert counts == {"(": 1, "NNP": 1, "[CLS]": 1, "[SEP]": 1, "other": 3}


PAIRS = [("w1 w2 w3", "w4 w5 w6 w7"), ("w1 w2 w3 w4 w5 w6", "w7"), ("w3", "w1 w1")]


def test_contributions_to_the_first_token(tiny, tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("\n".join("\t".join(row) for row in [("sentence1", "sentence2"), *PAIRS]))
    width = tiny.network.config.hidden_size  # so many directions are exact, whatever their seed
    found = idf.run(path, tiny, ["token_attribution"], out=tmp_path / "run", directions=width)["token_attribution"]
    by_position, from_separator = np.zeros(200), np.zeros(400)
    for text, pair in PAIRS:
        one = idf.token_attribution(tiny, text, pair, exact=True)
        separator = list(one.source_token.values).index("[SEP]")
        for position, share in enumerate(one.contribution.sel(layer=2, target=0).values[1:], start=1):
            by_position[position] += share
            from_separator[200 + position - separator] += share
    shown = found.cls_by_position.sel(layer=2)
    np.testing.assert_allclose(shown.values, (by_position / by_position.sum())[: len(shown)], atol=1e-6)
    shown = found.cls_from_separator.sel(layer=2)
    wanted = from_separator[200 + shown["distance"].values] / from_separator.sum()
    np.testing.assert_allclose(shown.values, wanted, atol=1e-6)
