"""Every command, run as a user runs it."""

import json
import re
import subprocess
import sys

import pytest
import torch
from packaging.version import Version
from safetensors.torch import save_file

from identiformer.cli import main
from identiformer.cli.application import run_command
from identiformer.errors import InputError
from tests.glue import write_glue
from tests.models.families import words
from tests.runs.tiny import save_tiny, texts, write_tsv


@pytest.fixture
def run(monkeypatch, capsys):
    """Run a command in this process; return its exit status, standard output and standard error."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["identiformer", *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
        printed = capsys.readouterr()
        return stop.value.code, printed.out, printed.err

    return call


def test_inspect_prints_sentences_and_writes_a_report(run, tmp_path):
    report = tmp_path / "report.html"
    status, out, errors = run("inspect", "--layer", "1", "--fast", "--out", str(report))
    printed = " ".join(out.split())
    assert (status, errors) == (0, "")
    assert "of the attention of 12 of 72 heads on these 155 tokens, at most" in printed
    assert "72 of 72 heads have a null space" in printed
    assert report.is_file()
    assert str(report) in out


def test_inspect_opens_with_the_reading(run):
    status, out, _ = run("inspect", "He said the pie was his. She did not agree.", "--layer", "1", "--layer", "5")
    printed = " ".join(out.split())
    assert status == 0
    assert printed.startswith("Before certification: of the attention of 24 of 72 heads on these 14 tokens, at most")
    assert "that is attributed is not computed yet. Of the attention of 24 of 72 heads" in printed
    assert re.search(r"\d+% is certified \(present in every row with the same output\), \d+% also contributes", printed)
    assert re.search(r"Layer 5, head \d+ puts \d+% of its weight on ‘\[CLS\]’. \d+% is certified, but contributes", printed)
    assert re.search(r"layer head writes certified contributes readable on sinks", printed)
    assert re.search(r"Of 72 heads, \d+ attend to one key, 1 to the previous token", printed)
    for title in ("Statements that pass all tests best", "Statements that fail a test", "Effective attention:"):
        assert title in printed


def test_inspect_reads_what_fits_into_memory(run, tiny_path, tmp_path):
    """All of a text whose weights fit, and otherwise the rows that do."""
    for memory, rows in (("4MiB", None), ("30KiB", 11)):
        options = ("--layer", "2", "--fast", "--memory", memory, "--out", str(tmp_path / "report.html"))
        status, out, errors = run("inspect", words(40), "--model", str(tiny_path), *options)
        printed = " ".join(out.split())
        assert (status, errors) == (0, "")
        fitted = f" in {rows} evenly spaced rows, as many as fit into memory (more with --memory, load(…, memory=))"
        assert f" tokens{'' if rows is None else fitted}, at most" in printed
        assert "Effective attention:" in printed


def test_inspect_as_json(run):
    status, out, _ = run(
        "inspect", "He said the pie was his.", "--pair", "She did not agree.", "--layer", "2", "--head", "5", "--json"
    )
    found = json.loads(out)
    assert status == 0
    assert found["tokens"] == 15
    reading = found["reading"]
    assert reading["layers"] == [2]
    assert 0 < reading["heads"]["readable"][0][0] <= reading["heads"]["contributing"][0][0]
    assert reading["holding"][0]["readable"] <= reading["holding"][0]["certified"] <= reading["holding"][0]["weight"] + 1e-6
    assert [(head["layer"], head["head"]) for head in found["shown"]] == [(2, 5)]
    assert found["patterns"]["dominant"][0][2] == "previous"
    assert found["patterns"]["shares"]["previous"][0][2] > 0.9


def test_inspect_certifies_heads(run, tiny_path):
    status, out, _ = run("inspect", words(20), "--layer", "2", "--model", str(tiny_path), "--certify")
    printed = " ".join(out.split())
    assert status == 0
    assert "With the same output, up to a relative change of 0.0001, that weight" in printed
    assert "A patched run with an alternative row" in printed
    assert re.search(r"In \d+% of the rows of these heads the largest weight is certified to be the largest", printed)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["inspect", ""], "empty"),
        (["inspect", "word " * 600], "at most 512 tokens"),
        (["inspect", "a", "--model", "no-such/model"], "work offline"),
        (["inspect", "a", "--model", "."], "no config.json"),
        (["inspect", "a", "--layer", "9"], "layer from 1 to 6"),
        (["inspect", "a", "--head", "12"], "head from 0 to 11"),
        (["inspect", "a", "--dtype", "float3"], "a dtype to compute in"),
        (["inspect", "a", "--memory", "much"], "a size of memory such as 500MiB or 4GiB, got 'much'"),
    ],
)
def test_bad_input_is_one_sentence_and_status_2(run, arguments, message, tmp_path):
    status, out, error = run(*arguments, "--out", str(tmp_path / "report.html"))
    assert status == 2
    assert message in error
    assert len(error.strip().splitlines()) == 1
    assert not out
    assert not list(tmp_path.iterdir())


@pytest.fixture
def corpus(tmp_path):
    rows = [f"{number}\tThe boat number {number} left the coast.\tIt came back {number} days later." for number in range(12)]
    path = tmp_path / "dev.tsv"
    path.write_text("\n".join(["index\tsentence1\tsentence2", *rows]))
    return path


def test_identify_prints_a_table_and_writes_results_and_figures(run, corpus, tmp_path):
    out = tmp_path / "out"
    arguments = ("identify", str(corpus), "--out", str(out), "--resplits", "2", "--probe", "naive l2", "--layer", "1")
    status, printed, _ = run(*arguments, "--also", "steps", "--compare-with", "minilm")
    assert status == 0
    assert "recovery rate" in printed
    assert (out / "token_identifiability.zarr").is_dir()
    assert (out / "token_steps.png").is_file()
    assert (out / "compared" / "token_steps.zarr").is_dir()
    status, printed, error = run(*arguments, "--json")
    (found,) = json.loads(printed)
    assert (status, error) == (0, "")
    assert found["examples"] == 12
    assert [(row["probe"], row["layer"], row["vocabulary"]) for row in found["rates"]] == [("naive l2", 1, None)]
    assert 0 <= found["rates"][0]["rate"] <= 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--limit", "3"], "at least 4 examples"),
        (["--probe", "deep l2"], "expected probes among naive cosine"),
        (["--also", "everything"], "expected also= among transfer"),
        (["--fit", "luck"], "expected a fit of closed, adam"),
        (["--layer", "7"], "a layer from 1 to 6"),
    ],
)
def test_identify_rejects_bad_input_in_one_sentence(run, corpus, tmp_path, arguments, message):
    status, out, error = run("identify", str(corpus), "--out", str(tmp_path / "out"), *arguments)
    assert (status, out) == (2, "")
    assert message in error
    assert len(error.strip().splitlines()) == 1


def test_identify_rejects_a_missing_corpus(run, tmp_path):
    status, _, error = run("identify", "none.tsv", "--out", str(tmp_path / "out"))
    assert status == 2
    assert "there is none" in error


def test_long_text_is_truncated_on_request(run):
    _, out, _ = run("inspect", "word " * 600, "--truncate", "--json", "--layer", "1", "--fast")
    assert json.loads(out)["tokens"] == 512


def test_import_is_light():
    code = "import sys, identiformer; print([name for name in ('torch', 'transformers', 'xarray') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_exists():
    import identiformer

    assert all(hasattr(identiformer, name) for name in identiformer.__all__)


def test_version_is_a_release_or_leads_to_one():
    import identiformer

    # The tag gives the version; commits after it make a .dev version of the next one.
    assert Version(identiformer.__version__) >= Version("0.1.0")


def test_memory_limits_attributions_and_comparisons(run, tiny_path, tmp_path, monkeypatch):
    corpus, judged = write_tsv(tmp_path / "words.tsv", texts(2)), ("--maps", "raw", "--yardsticks", "value_zeroing")
    arguments = ("compare", str(corpus), "--model", str(tiny_path), *judged, "--out")
    status, _, error = run(*arguments, str(tmp_path / "little"), "--memory", "1KiB")
    assert (status, "allow more with --memory" in error) == (2, True)
    assert run(*arguments, str(tmp_path / "enough"), "--memory", "1MiB")[0] == 0

    def attribution(model, *_, **__):
        raise InputError(f"{model.memory} bytes.")

    monkeypatch.setattr("identiformer.token_attribution", attribution)
    assert run("attribute", "He said.", "--memory", "1GiB")[2] == f"error: {2**30} bytes.\n"


def test_attribute_prints_contributions_and_writes_files(run, tiny_path, tmp_path):
    status, out, _ = run("attribute", "He said the pie was his.", "--token", "4", "--out", str(tmp_path / "found.html"))
    printed = " ".join(out.split())
    assert status == 0
    assert "The median self-contribution of the" in printed
    assert "The token pie at 4" in printed
    page = (tmp_path / "found.html").read_text(encoding="utf-8")
    assert "The token pie at 4" in page
    assert page.count("data:image/svg+xml") == 2
    assert not re.search(r"(src|href)=.?https?:", re.sub(r"base64,[^\"]*", "", page))
    for kind, magic in (("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")):
        assert run("attribute", "w1 w2", "--model", str(tiny_path), "--out", str(tmp_path / f"found.{kind}"))[0] == 0
        assert (tmp_path / f"found.{kind}").read_bytes().startswith(magic)


def test_attribute_as_json(run):
    status, out, _ = run("attribute", "He said.", "--pair", "She did.", "--json", "--tolerance", "0.5", "--directions", "4")
    found = json.loads(out)
    assert status == 0
    assert [row["layer"] for row in found["layers"]] == [1, 2, 3, 4, 5, 6]
    assert found["of_token"][0]["main"][0]["token"] == "[CLS]"
    assert found["tokens"] == 9


def test_attribute_rejects_bad_input_before_it_computes(run, tmp_path):
    for arguments, error in (
        (("He said.", "--token", "5"), "expected a token from 0 to 4, got 5"),
        (("He said.", "--directions", "400"), "exact=True"),
        (("He said.", "--norm", "nuclear"), "frobenius, spectral, summed"),
        (("He said.", "--out", str(tmp_path / "found.doc")), ".html, .png, .svg or .pdf"),
        (("  ",), "empty"),
    ):
        status, out, err = run("attribute", *arguments)
        assert status == 2
        assert out == ""
        assert error in err
        assert err.strip().count("\n") == 0
    assert not any(tmp_path.iterdir())


def test_finetune_trains_a_model_once(run, tmp_path, capsys):
    model, out = save_tiny(tmp_path / "tiny"), tmp_path / "out"
    capsys.readouterr()  # saving it shows a bar
    arguments = ("finetune", "--task", "CoLA", "--model", str(model), "--data", str(write_glue(tmp_path / "glue", "CoLA")))
    arguments += ("--out", str(out), "--epochs", "1", "--limit", "40")
    status, printed, error = run(*arguments)
    assert (status, error) == (0, "")
    assert re.fullmatch(rf"CoLA, development set: Matthews correlation -?\d.\d+, accuracy \d.\d+\nmodel: {out}\n", printed)
    assert run(*arguments) == (0, f"{out} is finished already; nothing was done.\n{printed}", "")
    status, printed, error = run(*arguments, "--seed", "3")
    assert (status, printed) == (2, "")
    assert "seed is 0 there and 3 here" in error
    assert run("inspect", "w1 w2 w3", "--model", str(out), "--json")[0] == 0


def test_finetune_rejects_bad_input_in_one_sentence(run, tmp_path):
    data = write_glue(tmp_path / "glue", train=4, dev=4)
    for options, message in (
        (("--task", "QNLI"), "expected a task of MRPC, CoLA, SST-2, TREC, movies, got 'QNLI'"),
        (("--task", "CoLA"), "CoLA/train.tsv, but there is no such file"),
        (("--task", "MRPC", "--limit", "0"), "at least one example"),
        (("--task", "MRPC", "--device", "abacus"), "expected a device"),
    ):
        status, out, error = run("finetune", "--data", str(data), "--out", str(tmp_path / "out"), *options)
        assert (status, out) == (2, "")
        assert message in error
        assert len(error.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_models_lists_what_works_and_why_not(run):
    status, out, _ = run("models")
    printed = " ".join(out.split())
    assert status == 0
    assert "bert (text): all" in printed
    assert "mamba (text): identifiability Trace" in printed
    assert re.search(r"\d{3} of \d{3} architectures pass every check of attention, as tiny random models", printed)
    status, out, _ = run("models", "--verify", "bert, fnet", "--json")
    bert, fnet = json.loads(out)
    assert not any(bert["reasons"].values())
    assert "fnet" in fnet["reasons"]["trace"]
    status, _, error = run("models", "--verify", "bertt")
    assert status == 2
    assert "got 'bertt'" in error


@pytest.mark.parametrize("options", [("--device", "meta"), ("--dtype", "float8_e4m3fn"), ("--dtype", "float8_e5m2")])
def test_device_or_precision_without_arithmetic_is_rejected_in_one_sentence(run, tiny_path, options):
    status, out, printed = run("inspect", "w1 w2", "--model", str(tiny_path), *options)
    assert (status, out) == (2, "")
    assert printed.count("\n") == 1
    assert "expected a" in printed
    assert options[1] in printed


def test_missing_weights_are_rejected_in_one_sentence(run, tmp_path):
    path = save_tiny(tmp_path / "tiny")
    save_file({"stray": torch.zeros(3)}, path / "model.safetensors", {"format": "pt"})
    status, out, printed = run("inspect", "w1 w2", "--model", str(path))
    assert (status, out) == (2, "")
    assert "got none for embeddings.LayerNorm.bias, " in printed
    assert "they hold stray;" in printed


@pytest.mark.filterwarnings("default::identiformer.errors.ModelWarning")
def test_unknown_tokens_are_warned_of_once_on_standard_error(run, tiny_path):
    status, out, printed = run("inspect", "nothing of this is known", "--model", str(tiny_path), "--json")
    assert status == 0
    assert json.loads(out)["tokens"] == 7
    assert printed.count("warning: more than half of the tokens of a text are unknown") == 1


def test_a_model_on_disk_is_inspected_and_an_unknown_device_rejected(tiny_path, capsys):
    command = ["inspect", "w1 w2 w3", "--model", str(tiny_path), "--fast", "--json"]
    assert run_command([*command, "--device-map", "disk"]) == 0
    on_disk = capsys.readouterr().out
    assert run_command(command) == 0
    assert on_disk == capsys.readouterr().out
    assert run_command([*command, "--device-map", "nowhere"]) == 2
    assert "or disk, got 'nowhere'" in " ".join(capsys.readouterr().err.split())
    assert run_command([*command, "--revision", "v1"]) == 2
    assert "a revision of a model on the hub" in " ".join(capsys.readouterr().err.split())
