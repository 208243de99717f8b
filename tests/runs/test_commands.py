"""The commands run, merge and results."""

import json
import sys

import pytest

from identiformer.cli import main
from tests.runs.tiny import texts, write_tsv


@pytest.fixture
def call(monkeypatch, capsys):
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["identiformer", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        printed = capsys.readouterr()
        return stop.value.code, printed.out, printed.err

    return run


def test_parts_are_run_merged_and_read(call, tiny_path, tmp_path):
    corpus = write_tsv(tmp_path / "dev.tsv", texts(40))
    for part in (1, 2):
        options = ("--measures", "texts", "--part", f"{part}/2", "--out", tmp_path / f"part{part}", "--json")
        status, out, _ = call("run", corpus, "--model", tiny_path, *options)
        lines = [json.loads(line) for line in out.splitlines()]
        assert status == 0
        folder = tmp_path / f"part{part}"
        assert lines[-1] == {"finished": str(folder), "measures": ["texts"], "report": str(folder / "report.html")}
        assert lines[0]["done"] == lines[0]["examples"] == (32, 8)[part - 1]
    status, out, _ = call("merge", tmp_path / "part1", tmp_path / "part2", "--out", tmp_path / "whole")
    assert status == 0
    assert "40 examples (pairs)" in out
    assert str(tmp_path / "whole") in out
    assert call("results", tmp_path / "whole")[1] == (tmp_path / "whole" / "summary.md").read_text(encoding="utf-8")
    actual = json.loads(call("results", tmp_path / "whole", "--json")[1])
    assert actual["results"]["texts"]["examples"] == 40
    assert actual["settings"]["part"] == "1/1"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("none.txt",), "there is none at none.txt"),
        (("pyproject.toml",), "choose its format with --format"),
        (("README.md", "--format", "lines", "--measures", "texts,nothing"), "got 'nothing'"),
        (
            ("README.md", "--format", "lines", "--engine", "ray", "--address", "127.0.0.1:1"),
            "no Ray cluster answers at",
        ),
        (("README.md", "--format", "lines", "--workers", "2"), "use --engine ray"),
        (("README.md", "--format", "lines", "--limit", "0"), "expected at least one example to read"),
        (("README.md", "--format", "lines", "--limit", "-1"), "expected at least one example to read"),
        (("README.md", "--format", "lines", "--limit", str(10**30)), "expected at least one example to read"),
        (("README.md", "--format", "lines", "--seed", "-1"), "expected a seed from 0"),
        (("README.md", "--format", "lines", "--seed", str(10**40)), "expected a seed from 0"),
        (("README.md", "--format", "lines", "--part", "7/3"), "expected a part such as 1/3"),
        (("README.md", "--format", "lines", "--limit", "9", "--part", "3/3"), "part 3/3 has none; use fewer parts"),
        (("README.md", "--format", "jsonl"), "expected JSON in line 1"),
        (("/dev/zero", "--format", "lines"), "pipe, socket or device"),
    ],
)
def test_invalid_arguments_are_one_sentence_and_status_2(call, tiny_path, tmp_path, arguments, message):
    status, out, complaint = call("run", *arguments, "--model", tiny_path, "--out", tmp_path / "run", "--json")
    assert status == 2
    assert message in complaint
    assert len(complaint.strip().splitlines()) == 1
    assert not out


def test_a_folder_without_a_run_is_rejected(call, tmp_path):
    assert call("results", tmp_path)[0] == 2
    assert call("merge", tmp_path, "--out", tmp_path / "out")[0] == 2
