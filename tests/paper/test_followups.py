"""The papers that followed, for a tiny model and tiny data: each graded on a page of its own, and all on one."""

import json

import numpy as np
import pytest
import torch

import identiformer as idf
from identiformer.errors import InputError, RunError
from identiformer.paper.followups import PAPERS, sun2021
from identiformer.paper.followups.sun2021 import KINDS, attention_by_kind, padding_recipe
from tests.cli.rejected import rejected
from tests.glue import write_glue
from tests.models.families import words
from tests.runs.tiny import texts, write_tsv

pytestmark = pytest.mark.filterwarnings("ignore::identiformer.errors.ModelWarning")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for task in ("MRPC", "CoLA"):
        write_glue(folder, task, train=40, dev=12)
    generator = np.random.default_rng(0)
    for task, classes, names in (("SST-2", 2, ("train", "dev")), ("TREC", 6, ("train", "test"))):
        (folder / task).mkdir()
        for name in names:
            labels = generator.integers(classes, size=40)
            rows = [f"w{label} {words(5, number)}\t{label}" for number, label in enumerate(labels)]
            (folder / task / f"{name}.tsv").write_text("\n".join(["sentence\tlabel", *rows]) + "\n")
    (folder / "movies" / "docs").mkdir(parents=True)
    for name in ("train", "val", "test"):
        lines = []
        for number in range(12):
            (folder / "movies" / "docs" / f"{name}{number}").write_text(words(150, number))
            lines.append(
                f'{{"annotation_id": "{name}{number}", "classification": "{("NEG", "POS")[number % 2]}", "evidences": []}}'
            )
        (folder / "movies" / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def test_kinds_and_patterns_are_shares(tiny):
    result = attention_by_kind(tiny.trace(words(9), words(7, 2)))
    np.testing.assert_allclose(result.share.sum("kind"), 1, atol=1e-6)
    trace, kinds = tiny.trace(words(9), words(7, 2)), dict(zip(KINDS, range(4), strict=True))
    weights = trace.layer(1).recorded().weights
    expected = weights[:, :, 0].mean(-1)
    np.testing.assert_allclose(result.share.sel(component="raw", layer=1)[:, kinds["[CLS]"]], expected, atol=1e-6)
    segments = torch.tensor(trace.stack().queries.segments)
    within = torch.where(segments[:, None] == segments, weights, 0).sum(-1).mean(-1)
    np.testing.assert_allclose(result.pattern_share.sel(component="raw", layer=1, pattern="block"), within, atol=1e-6)


def test_the_recipe_with_padding_is_wrong_and_without_it_right(tiny, monkeypatch):
    text, pair = words(12), words(9, 3)
    wrong = padding_recipe_at(tiny, text, pair, 40, monkeypatch)
    length = len(tiny.tokens(text, pair))
    right = padding_recipe_at(tiny, text, pair, length, monkeypatch)
    assert float(wrong.output_change.mean()) > 0.01
    assert float(right.output_change.max()) < 1e-5
    np.testing.assert_allclose(right.correlation, right.true_correlation, atol=1e-4)


def padding_recipe_at(model, text, pair, length, monkeypatch):
    monkeypatch.setattr(sun2021, "PADDED", length)
    return padding_recipe(model, text, pair)


def test_pascual_is_graded_and_reused(tiny, data, tmp_path, monkeypatch):
    done = idf.reproduce(tiny, data, tmp_path / "out", of="pascual2021", quick=True)
    assert done.drawn == ("1", "2", "3")
    assert len(done.grades) == 5
    assert "Telling BERT" in done.page.read_text(encoding="utf-8")
    monkeypatch.setattr(
        "identiformer.paper.followups.pascual2021.token_attribution", lambda *_, **__: pytest.fail("computed again")
    )
    assert idf.reproduce(tiny, data, tmp_path / "out", of="pascual2021", quick=True).grades == done.grades
    with pytest.raises(RunError, match="of is pascual2021 there"):
        idf.reproduce(tiny, data, tmp_path / "out", of="sun2021", quick=True)


def test_unknown_papers_and_missing_data(tiny, tiny_path, tmp_path, capsys):
    write_tsv(tmp_path / "MRPC.tsv", texts(2))
    with pytest.raises(InputError, match=r"expected a paper of brunner2020, .* got 'vaswani2017'"):
        idf.reproduce(tiny, tmp_path, tmp_path / "out", of="vaswani2017")
    (tmp_path / "MRPC").mkdir()
    write_tsv(tmp_path / "MRPC" / "dev.tsv", texts(2))
    done = idf.reproduce(tiny, tmp_path, tmp_path / "out", of="bhardwaj2021", quick=True)
    assert done.missing["4"] == f"needs TREC/test.tsv and TREC/train.tsv, which {tmp_path} lacks"
    assert not (tmp_path / "nothing").exists()
    command = ("paper", "--of", "bhardwaj2021", "--data", tmp_path, "--model", tiny_path, "--out", tmp_path / "out", "--quick")
    assert "at least one figure, got none: Figure 1 needs SST-2/dev.tsv" in rejected(capsys, *command)


def test_every_paper_has_claims():
    assert list(PAPERS) == ["brunner2020", "bhardwaj2021", "sun2021", "pascual2021"]
    for paper in PAPERS.values():
        assert sum(len(recipe.claims) for recipe in paper.recipes.values()) >= 5
        assert paper.datasets


@pytest.mark.slow
def test_papers_on_one_page(tiny, data, tmp_path, monkeypatch):
    monkeypatch.setattr(sun2021, "PADDED", 48)  # the tiny model has fewer positions than the public recipe pads to
    done = idf.reproduce_papers(tiny, data, tmp_path / "out", of=["bhardwaj2021", "sun2021", "pascual2021"], quick=True)
    assert list(done) == ["bhardwaj2021", "sun2021", "pascual2021"]
    assert done["sun2021"].drawn == ("1a", "1b", "1c", "2a", "2b", "2c", "3")
    assert done["bhardwaj2021"].drawn == ("1", "2", "3", "4")
    page = (tmp_path / "out" / "page.html").read_text(encoding="utf-8")
    assert all(f'href="{key}/page.html"' in page for key in done)
    findings = json.loads((tmp_path / "out" / "bhardwaj2021" / "findings.json").read_text())
    assert [figure["number"] for figure in findings["figures"]] == ["1", "2", "3", "4"]
    assert {"variants_SST-2", "variants_TREC", "variants_TREC-16"} <= {time["name"] for time in findings["times"]}
