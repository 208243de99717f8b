"""Paths that a command can write to, and paths that it rejects."""

import os
from itertools import product

from identiformer.cli import run_command
from tests.cli.rejected import TEXT, rejected
from tests.glue import write_glue
from tests.runs.tiny import texts, write_tsv


def invalid_paths(folder):
    """Paths that cannot be a file, with the reason in the error."""
    (folder / "file").write_text("x", encoding="utf-8")
    (folder / "loop.html").symlink_to(folder / "loop.html")
    (folder / "folder.html").mkdir()
    os.mkfifo(folder / "pipe.html")
    long = "a" * 300
    return {
        folder / "file" / "report.html": "part of the path is a file",
        folder / "loop.html": "link to itself",
        folder / "folder.html": "is a folder",
        folder / "pipe.html": "is a device, a pipe",
        folder / f"{long}.html": "File name too long",
        folder / long / "report.html": "File name too long",
        "/proc/report.html": "cannot be written",
        "/proc/self/mem/report.html": "part of the path is a file",
        "/dev/null": "is a device",
        "/dev/full": "is a device",
        "": "is a folder",
    }


def test_report_path_must_be_a_file(capsys, tiny_path, tmp_path):
    paths = invalid_paths(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    for path, message in paths.items():
        assert message in rejected(capsys, "inspect", TEXT, "--model", tiny_path, "--json", "--out", path)
        if str(path).endswith(".html"):
            assert message in rejected(capsys, "attribute", "w1", "--model", tiny_path, "--out", path)
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "file").read_text(encoding="utf-8") == "x"
    assert os.path.exists("/dev/null")
    assert not os.path.isfile("/dev/null")


def test_report_follows_a_dangling_link(tiny_path, tmp_path):
    (tmp_path / "link.html").symlink_to(tmp_path / "real.html")
    assert run_command(["inspect", TEXT, "--model", str(tiny_path), "--out", str(tmp_path / "link.html")]) == 0
    assert (tmp_path / "link.html").is_symlink()
    assert (tmp_path / "real.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_folder_path_must_be_a_folder(capsys, tiny_path, tmp_path):
    invalid_paths(tmp_path)
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere" / "else")
    corpus, glue = write_tsv(tmp_path / "dev.tsv", texts(8)), write_glue(tmp_path / "glue", train=4, dev=4)
    commands = (
        ("run", corpus, "--measures", "texts"),
        ("identify", corpus, "--resplits", "2", "--probe", "naive l2"),
        ("finetune", "--task", "MRPC", "--data", glue, "--epochs", "1"),
        ("paper", "--data", glue, "--figures", "2a", "--quick"),
    )
    names = ("file", "file/run", "loop.html", "pipe.html", "dangling", "a" * 300)
    before = sorted(tmp_path.rglob("*"))
    for command, path in product(commands, (*(tmp_path / name for name in names), "/proc/run", "/dev/null")):
        rejected(capsys, *command, "--model", tiny_path, "--out", path)
    assert sorted(tmp_path.rglob("*")) == before
