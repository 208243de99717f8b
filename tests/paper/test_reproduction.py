"""The paper's figures for a tiny model and tiny data: drawn, graded, reused; missing ones have a reason."""

import importlib
import json
from dataclasses import asdict, replace

import numpy as np
import pytest
import xarray as xr

import identiformer as idf
from identiformer.errors import IdentiformerError, InputError, MissingPackageError, RunError
from identiformer.files import write_file
from identiformer.paper.computations.data import FULL, QUICK, find_data
from identiformer.paper.computations.study import LINEAR, PERCEPTRONS, PLAIN, Study
from identiformer.paper.recipes import RECIPES, beyond, choose_recipes
from identiformer.paper.reproduction import durations
from tests.models.families import SERVED, build, word_tokenizer
from tests.runs.tiny import texts, write_tsv

# The passage of Figure 6 is English, whose words the tiny tokenizer does not know.
pytestmark = pytest.mark.filterwarnings("ignore::identiformer.errors.ModelWarning")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("glue")
    for dataset, file in (("MRPC", "dev.tsv"), ("CoLA", "dev.tsv"), ("MNLI", "dev_matched.tsv")):
        (folder / dataset).mkdir()
        write_tsv(folder / dataset / file, texts(12))
    return folder


def bits(folder):
    return {path.name: path.read_bytes() for path in sorted((folder / "figures").glob("*.png"))}


def test_figures_are_drawn_graded_and_reused(tiny, data, tmp_path, monkeypatch):
    done = idf.reproduce(tiny, data, tmp_path / "out", figures=["2", "3", "6", "7", "18", "19"], quick=True)
    assert done.drawn == ("2a", "2b", "3", "6", "7", "18a", "18b", "19")
    assert {path.name for path in (tmp_path / "out" / "figures").iterdir()} == {
        f"{number}.{kind}" for number in done.drawn for kind in ("png", "svg")
    }
    page = done.page.read_text(encoding="utf-8")
    assert all(f"Figure {number}." in page for number in done.drawn)
    assert json.loads((tmp_path / "out" / "grades.json").read_text()) == [asdict(grade) for grade in done.grades]
    assert {grade.verdict for grade in done.grades if grade.paper is not None} == {"another model", "undecided"}
    assert [(grade.ours, grade.verdict) for grade in done.grades if "layer 12" in grade.says] == [("2 layers", "undecided")] * 2
    findings = json.loads((tmp_path / "out" / "findings.json").read_text())
    assert [figure["number"] for figure in findings["figures"]] == list(done.drawn)
    assert {time["name"] for time in findings["times"]} >= {"identifiability_MRPC", "attribution_MRPC", "passage", "example"}
    before = bits(tmp_path / "out")
    for name in ("token_identifiability", "token_transfer", "effective_attention", "token_attribution", "run"):
        monkeypatch.setattr(f"identiformer.paper.computations.study.{name}", lambda *_, **__: pytest.fail("computed again"))
    again = idf.reproduce(tiny, data, tmp_path / "out", figures=["2", "3", "6", "7", "18", "19"], quick=True)
    assert (again.grades, bits(tmp_path / "out")) == (done.grades, before)


def test_interrupted_run_continues_to_identical_figures(tiny, data, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("identiformer.paper.computations.study.run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        idf.reproduce(tiny, data, tmp_path / "one", figures=["2a", "4"], quick=True)
    monkeypatch.undo()
    idf.reproduce(tiny, data, tmp_path / "one", figures=["2a", "4"], quick=True)
    idf.reproduce(tiny, data, tmp_path / "two", figures=["2a", "4"], quick=True)
    assert bits(tmp_path / "one") == bits(tmp_path / "two")


@pytest.mark.usefixtures("undrawn")
def test_figures_without_their_data_are_missing_with_a_reason(tiny, data, tmp_path):
    done = idf.reproduce(tiny, data, tmp_path / "out", figures=["6", "12", "9", "1b", "20"], quick=True)
    assert done.drawn == ("6",)
    assert "MRPC/train.tsv" in done.missing["12"]
    assert "“he”, which is not a token" in done.missing["20"]
    assert "MLP probes" in done.missing["9"]
    assert "wiki.test.raw" in done.missing["1b"]
    assert "Figure 12" in done.page.read_text(encoding="utf-8")


@pytest.mark.slow
def test_mlp_probes_are_shown_with_linear_probes(tiny, data, tmp_path, monkeypatch):
    """On fewer examples and one resplit, with the curve of B.2 and the time that the paper's settings would take."""
    scale = replace(
        FULL, resplits=2, perceptron_examples={"MRPC": None, "steps": 9, "neighbors": 9}, identified={"MRPC": None}
    )  # fmt: skip
    monkeypatch.setattr(importlib.import_module("identiformer.paper.reproduction"), "FULL", scale)
    monkeypatch.setattr("identiformer.probes.maps.PATIENCE", 1)
    done = idf.reproduce(tiny, data, tmp_path / "out", figures=["2a", "7", "9", "11", "15"])
    assert done.drawn == ("2a", "7", "9", "11", "15")
    study = Study(tiny, find_data(data), scale, tmp_path / "out")
    assert list(study.steps()["probe"].values) == [*PLAIN, *PERCEPTRONS]
    assert np.isfinite(study.neighbors().rate).all()
    assert len([grade for grade in done.grades if "of the training data" in grade.says and grade.verdict == "another model"]) == 4
    times = {time.name: time for time in durations(study, {figure: {"steps_MRPC"} for figure in ("3", "11", "12", "13", "B1")})}
    assert times["steps_MRPC"].figures == "3, 11-13, B1"
    used = {time["name"]: time["figures"] for time in json.loads((tmp_path / "out" / "findings.json").read_text())["times"]}
    assert used["identifiability_MRPC"] == "2, 7"
    assert used["neighbors_MRPC_mlp"] == "15"
    assert np.isclose(times["steps_MRPC_mlp"].papers, times["steps_MRPC_mlp"].seconds * 10 * 408 / 9)
    assert np.isclose(times["steps_MRPC"].papers, times["steps_MRPC"].seconds * 5 * 110)
    write_file(tmp_path / "out" / "seconds.json", b'{"finetuned_steps_MRPC": 100.0}')
    assert np.isclose(durations(study, {})[0].papers, 100 * (3668 + 8551) / 4000)
    assert json.loads(study.neighbors().attrs["settings"])["resplits"] == 3
    assert np.isclose(times["neighbors_MRPC"].papers, times["neighbors_MRPC"].seconds * 10 / 3 * 110)


@pytest.mark.slow
def test_layers_shared_among_workers(tiny, data, tmp_path):
    """Identical to one process, and close to all layers at once."""
    one, two = (Study(tiny, find_data(data), QUICK, tmp_path / str(workers), workers=workers) for workers in (1, 2))
    xr.testing.assert_identical(one.transfer().load(), two.transfer().load())
    whole = idf.token_identifiability(tiny, data / "MRPC" / "dev.tsv", methods=PLAIN, resplits=QUICK.resplits, limit=80)
    np.testing.assert_allclose(one.identifiability().rate, whole.rate)
    crossed = idf.token_transfer(tiny, data / "MRPC" / "dev.tsv", methods=LINEAR, resplits=QUICK.resplits, limit=80)
    np.testing.assert_allclose(one.transfer().rate, crossed.rate)


@pytest.mark.usefixtures("undrawn")
def test_options_and_figures_beyond_the_paper(tiny, data, tmp_path):
    done = idf.reproduce(tiny, data, tmp_path / "out", figures=["O1", "B2", "B4", "B5"], quick=True)
    assert done.drawn == ("O1", "B2", "B4", "B5")
    tables = {
        figure["number"]: figure["table"] for figure in json.loads((tmp_path / "out" / "findings.json").read_text())["figures"]
    }
    assert [row[:2] for row in tables["O1"]["rows"]] == [
        [norm, f"{site} LayerNorm"] for norm in ("frobenius", "spectral", "summed") for site in ("before", "after")
    ]
    assert "maximum entropy" in done.page.read_text(encoding="utf-8")
    shares = idf.token_attribution(tiny, "w1", exact=True, norm="spectral", input_site="after").self_contribution
    assert shares.dims == ("layer", "target")
    (text,) = idf.read_corpus(data / "CoLA" / "dev.tsv", 1)
    median = idf.token_attribution(tiny, text.text, exact=True, norm="spectral", input_site="after").self_contribution.median(
        "target"
    )
    assert tables["O1"]["rows"][3][2] == f"{100 * float(median[0]):.1f} %"


@pytest.mark.usefixtures("undrawn")
def test_custom_passage_and_pair(tiny, data, tmp_path):
    texts = {"passage": "w1 w2 w3 w4", "pair": ("he w1", "w2 w3")}
    done = idf.reproduce(tiny, data, tmp_path / "out", figures=["6", "19", "20"], quick=True, **texts)
    assert done.drawn == ("6", "19") + (("20",) if "he" in tiny.tokens("he w1").texts else ())
    assert "“he w1” and “w2 w3”" in done.page.read_text(encoding="utf-8")
    assert "“w1 … w4”" in done.page.read_text(encoding="utf-8")
    with pytest.raises(RunError, match=r"passage.* there and .* here, pair is"):
        idf.reproduce(tiny, data, tmp_path / "out", figures=["6"], quick=True)


def test_hub_data_are_fetched_at_once(tiny, tmp_path, monkeypatch):
    for name in ("glu", "nowhere/glue"):  # a missing folder; a dataset that cannot be fetched
        with pytest.raises(IdentiformerError, match=r"found none|not a file here"):
            idf.reproduce(tiny, name, tmp_path / "out")
        assert not (tmp_path / "out").exists()
    read = []
    monkeypatch.setattr("identiformer.paper.computations.data.read_corpus", lambda corpus, limit: read.append(corpus))
    data = find_data("nyu-mll/glue")
    assert read == list(data.files.values())
    assert data.files["MNLI"] == "nyu-mll/glue:mnli:validation_matched"
    assert data.missing(("MRPC", "wiki")) == ("wiki/wiki.test.raw",)
    assert data.hashes(["MRPC"])["MRPC"] == "nyu-mll/glue:mrpc:validation"


@pytest.mark.slow
def test_tagged_pairs_need_no_tagger(tiny, tmp_path, monkeypatch):
    def missing():
        raise MissingPackageError("no tagger here")

    for module in ("paper.computations.study", "texts.tagging", "measures.corpus.token_attribution"):
        monkeypatch.setattr(f"identiformer.{module}.load_tagger", missing)
    for name, columns in (("none", ()), ("half", ("sentence1 tags",)), ("both", ("sentence1 tags", "sentence2 tags"))):
        lines = ["\t".join(("sentence1", "sentence2", *columns))]
        for example in texts(3):
            tags = (" ".join("NN" for _ in text.split()) for text in (example.text, example.pair))
            lines.append("\t".join([example.text, example.pair, *tags][: 2 + len(columns)]))
        (tmp_path / name / "MRPC").mkdir(parents=True)
        (tmp_path / name / "MRPC" / "dev.tsv").write_text("\n".join(lines) + "\n")
        done = idf.reproduce(tiny, tmp_path / name, tmp_path / f"{name} out", figures=["6", "26"], quick=True)
        assert done.drawn == (("6", "26") if name == "both" else ("6",))
        assert done.missing == ({} if name == "both" else {"26": "needs tags of words: no tagger here"})


@pytest.mark.usefixtures("undrawn")
def test_decoder_lacks_figures_about_separators(data, tmp_path):
    tokenizer = word_tokenizer()
    tokenizer.sep_token = None
    model = idf.load(build("gpt2", SERVED["gpt2"]), tokenizer)
    done = idf.reproduce(model, data, tmp_path / "out", figures=["18b", "6"], quick=True)
    assert done.drawn == ("6",)
    assert "[SEP]" in done.missing["18b"]


@pytest.mark.usefixtures("undrawn")
def test_bad_input_is_rejected(tiny, data, tmp_path):
    with pytest.raises(InputError, match=r"expected figures of 1a, .*, got '44'"):
        idf.reproduce(tiny, data, tmp_path / "out", figures=["44"])
    with pytest.raises(InputError, match=r"MRPC/dev\.tsv, .* found none"):
        idf.reproduce(tiny, tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "notes.txt").write_text("mine")
    with pytest.raises(RunError, match=r"expected a free folder .* holds notes\.txt"):
        idf.reproduce(tiny, data, tmp_path / "taken")
    idf.reproduce(tiny, data, tmp_path / "out", figures=["6"], quick=True)
    with pytest.raises(RunError, match=r"but scale\..* there and .* here"):
        idf.reproduce(tiny, data, tmp_path / "out", figures=["6"])


def test_numbers_are_unique_and_choose_all_panels():
    numbers = [recipe.number for recipe in RECIPES]
    assert len(numbers) == len(set(numbers))
    assert [recipe.number for recipe in choose_recipes(["18", "2a"])] == ["2a", "18a", "18b"]
    assert choose_recipes(None) == list(RECIPES)


@pytest.mark.parametrize(
    ("agreement", "verdict"), [([0.6, 0.4, 0.1], True), ([0.6, 0.1, 0.5], False), ([0.1, 0.4, 0.6], False), ([0.6, 0.1], None)]
)
def test_curve_that_rises_in_between_does_not_fall(tiny, data, tmp_path, monkeypatch, agreement, verdict):
    """0.6 0.1 0.5 ends lower than it starts, which is not a fall with depth."""
    values = xr.DataArray(np.array(agreement)[:, None, None], dims=("layer", "head", "target"))
    monkeypatch.setattr(beyond, "_head_attribution", lambda study: [xr.Dataset({"raw_agreement": values})])
    assert beyond.agreement_falls_with_depth(Study(tiny, find_data(data), QUICK, tmp_path))[0] is verdict
