"""Importing a package loads no more than it needs: torch and transformers take seconds."""

import json
import subprocess
import sys

import pytest

import identiformer as idf

HEAVY = ("torch", "transformers", "xarray", "matplotlib", "scipy", "highspy", "zarr")


def loaded_by(statement):
    code = f"import json, sys; {statement}; print(json.dumps([name for name in {HEAVY} if name in sys.modules]))"
    return json.loads(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout)


@pytest.mark.parametrize(
    "statement",
    ["import identiformer", "import identiformer.texts", "import identiformer; identiformer.read_corpus(['a text'])"],
)
def test_reading_texts_loads_neither_torch_nor_transformers(statement):
    assert loaded_by(statement) == []


def test_probes_do_not_load_transformers():
    assert "transformers" not in loaded_by("import identiformer.probes")


def test_loading_a_model_waits_for_nothing_that_only_measures_need():
    loaded = loaded_by("from identiformer.models.load_model import load")
    assert set(loaded) - {"scipy"} == {"torch", "transformers"}  # transformers imports SciPy for the losses of some models


def command(*arguments):
    """The exit status of a command, the seconds of processor time it took, and which heavy packages it imported."""
    code = (
        "import json, sys, time; sys.argv[0] = 'identiformer'; from identiformer.cli import run_command; status = run_command(); "
        f"loaded = [name for name in {HEAVY} if name in sys.modules]; "
        "print(json.dumps([status, time.process_time(), loaded]), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, *map(str, arguments)], capture_output=True, check=True, text=True)
    return json.loads(done.stderr.splitlines()[-1])


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["--help"], 0),
        (["inspect", "--help"], 0),
        (["--no-such-option"], 2),
        (["inspect", "--no-such-option"], 2),
        (["inspect", "--out", "."], 2),
        (["results", "no-such-folder"], 2),
    ],
)
def test_help_and_bad_input_answer_at_once(arguments, status):
    exit_status, seconds, loaded = command(*arguments)
    assert (exit_status, loaded) == (status, [])
    assert seconds < 0.5


def test_results_are_printed_without_loading_torch(minilm, tmp_path):
    idf.run(["A ferry is a boat."], minilm, ["effective_attention"], out=tmp_path / "run")
    exit_status, seconds, loaded = command("results", tmp_path / "run")
    assert (exit_status, loaded) == (0, [])
    assert seconds < 0.5
