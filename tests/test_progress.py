"""Where standard error is no terminal, progress is a plain line every few seconds."""

import re
import time

import pytest

from identiformer import progress
from identiformer.progress import run_progress, status, work_bar


@pytest.fixture(autouse=True)
def often(monkeypatch):
    monkeypatch.setattr(progress, "SECONDS", 0.05)


def test_a_bar_is_plain_lines(capsys):
    with work_bar("fitting", True) as bar:
        bar.expect(200)
        bar.advance(50)
        time.sleep(0.2)
    printed = capsys.readouterr()
    assert printed.out == ""
    lines = printed.err.splitlines()
    assert 1 <= len(lines) <= 4
    assert all(re.fullmatch(r"fitting: 25% after 0 s(, about \d+ s left)?", line) for line in lines), lines


def test_a_run_counts_its_examples(capsys):
    with run_progress("bar", 64, 32, 2) as bar:
        bar.running([1])
        time.sleep(0.1)
    assert capsys.readouterr().err.splitlines()[0].startswith("shard 2 of 2: 50%")


@pytest.mark.parametrize("form", ["none", "json"])
def test_no_lines_unless_they_are_wanted(capsys, form):
    with run_progress(form, 64, 32, 2), work_bar("fitting", False), status("waiting", False):
        time.sleep(0.1)
    assert capsys.readouterr() == ("", "")


def test_what_is_quick_is_silent(capsys, monkeypatch):
    monkeypatch.setattr(progress, "SECONDS", 60)
    with status("loading"), work_bar("fitting", True):
        pass
    assert capsys.readouterr() == ("", "")


def test_a_status_says_how_long_it_has_taken(capsys):
    with status("writing the answer …"):
        time.sleep(0.1)
    assert re.match(r"writing the answer … \d+ s\n", capsys.readouterr().err)
