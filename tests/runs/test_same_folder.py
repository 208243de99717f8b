"""The same corpus, model and settings yield the same bytes in every file of the folder, interrupted or not.

Only `shards/` and the line `shard_size` of settings.json depend on the size of the shards.
"""

import json
import shutil
import sys

import pytest

from identiformer.cli import main
from tests.runs.tiny import content, texts, write_tsv


@pytest.fixture(scope="module")
def call():
    def run(*arguments):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", ["identiformer", *map(str, arguments)])
            with pytest.raises(SystemExit) as stop:
                main()
        assert stop.value.code == 0

    return run


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_tsv(tmp_path_factory.mktemp("corpus") / "dev.tsv", texts(70))


@pytest.fixture(scope="module")
def first(call, corpus, tiny_path, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "first"
    call("run", corpus, "--model", tiny_path, "--out", out)
    return out


def without_shards(folder):
    files = {name: value for name, value in content(folder).items() if not name.startswith("shards/")}
    settings = json.loads(files.pop("settings.json"))
    return files, {**settings, "settings": {**settings["settings"], "shard_size": None}}


def test_every_file_is_the_same_from_run_to_run(call, corpus, tiny_path, first, tmp_path):
    call("run", corpus, "--model", tiny_path, "--out", tmp_path / "again")
    assert "report.html" in content(first)
    assert content(tmp_path / "again") == content(first)


def test_every_file_is_the_same_after_an_interruption(call, corpus, tiny_path, first, tmp_path):
    stopped = shutil.copytree(first, tmp_path / "stopped")
    for name in ("finished.json", "summary.md", "report.html"):
        (stopped / name).unlink()
    shutil.rmtree(stopped / "figures")
    shutil.rmtree(stopped / "results.zarr" / "texts")
    sorted((stopped / "shards").iterdir())[1].unlink()
    (stopped / "shards" / ".writing-000001.state").write_bytes(b"half")
    call("run", corpus, "--model", tiny_path, "--out", stopped, "--resume")
    assert content(stopped) == content(first)


@pytest.mark.slow
def test_only_shards_depend_on_shard_size_and_parts(call, corpus, tiny_path, first, tmp_path):
    call("run", corpus, "--model", tiny_path, "--out", tmp_path / "cut", "--shard-size", "64")
    assert without_shards(tmp_path / "cut") == without_shards(first)
    for part in (1, 2):
        call("run", corpus, "--model", tiny_path, "--out", tmp_path / f"part{part}", "--part", f"{part}/2")
    call("merge", tmp_path / "part2", tmp_path / "part1", "--out", tmp_path / "merged")
    assert content(tmp_path / "merged") == content(first)


@pytest.mark.slow
def test_ray_writes_the_same_files(call, corpus, tiny_path, first, tmp_path):
    pytest.importorskip("ray")
    call("run", corpus, "--model", tiny_path, "--out", tmp_path / "ray", "--engine", "ray", "--workers", "2")
    assert content(tmp_path / "ray") == content(first)
