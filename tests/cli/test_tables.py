"""What commands print in a terminal of 80 columns, which must not be wrapped by it."""

from types import SimpleNamespace

import pytest

from identiformer.cli import application, run_command
from identiformer.cli.paper import _print
from identiformer.paper.recipes.declarations import Grade
from tests.cli.rejected import TEXT
from tests.runs.tiny import texts, write_tsv


@pytest.fixture(autouse=True)
def eighty_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


def widest(printed):
    return max(map(len, printed.splitlines()))


def test_grades_of_a_paper_take_few_lines(capsys):
    says = "effective attention to the separator is lower than raw attention in the middle layers of the model"
    grades = [Grade("2a", says, 0.93, 0.01, "12.3 % " * 40, "another model"), Grade("18b", says, None, None, "0.5", "holds")]
    _print(SimpleNamespace(grades=grades, missing={}, page="page.html"), "brunner2020")
    printed = capsys.readouterr().out
    assert widest(printed) <= 80
    assert len(printed.splitlines()) < 16
    assert "(the paper: 0.93)" in " ".join(printed.split())


def test_a_summary_is_laid_out_in_a_terminal_and_kept_as_it_is_in_a_pipe(capsys, tiny_path, tmp_path, monkeypatch):
    corpus, out = write_tsv(tmp_path / "dev.tsv", texts(8)), str(tmp_path / "run")
    assert (
        run_command(["run", str(corpus), "--model", str(tiny_path), "--measures", "texts, effective_attention", "--out", out])
        == 0
    )
    assert "\n| layer | null mass |" in capsys.readouterr().out
    console = application.Console
    monkeypatch.setattr(application, "Console", lambda: console(force_terminal=True, no_color=True, force_interactive=False))
    assert run_command(["results", out]) == 0
    printed = capsys.readouterr().out
    assert "null mass" in printed
    assert "| ---" not in printed


@pytest.mark.parametrize("command", ["inspect", "attribute"])
def test_tables_of_a_text(capsys, tiny_path, command):
    assert run_command([command, TEXT, "--model", str(tiny_path)]) == 0
    assert widest(capsys.readouterr().out) <= 80
