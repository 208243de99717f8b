"""`identify` and `finetune` killed at random moments end with the same bits and leave no temporary files."""

import time

import pytest

import identiformer as idf
from identiformer.errors import RunError
from identiformer.files import TEMPORARY
from identiformer.folders import locked
from identiformer.results import open_result
from tests.glue import write_glue
from tests.killed import kill_at_random, leave_temporary_files, listed, start
from tests.runs.tiny import texts, write_tsv

pytestmark = pytest.mark.usefixtures("undrawn")

QUICK = {"methods": ["naive cosine"], "layers": [1], "resplits": 1}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_tsv(tmp_path_factory.mktemp("corpus") / "dev.tsv", texts(120))


@pytest.fixture(scope="module")
def glue(tmp_path_factory):
    return write_glue(tmp_path_factory.mktemp("glue"))


def identified(out):
    """Results, figures and the names of all files."""
    results = {path.name: open_result(path) for path in out.glob("*.zarr")}
    return results, {path.name: path.read_bytes() for path in out.glob("*.png")}, listed(out)


@pytest.mark.slow
def test_identify_killed_at_random_moments(tiny_path, corpus, tmp_path):
    def command(out):
        options = ["--also", "neighbors", "--also", "transfer", "--probe", "linear cosine", "--resplits", 4]
        return ["identify", corpus, "--model", tiny_path, "--out", out, *options]

    begin = time.monotonic()
    assert start(*command(tmp_path / "whole")).wait() == 0
    whole, pictures, files = identified(tmp_path / "whole")
    assert (len(whole), len(pictures)) == (3, 3)
    for seed in range(4):
        out = tmp_path / f"killed{seed}"
        kill_at_random(out, 2, seed, (time.monotonic() - begin) / 2 if seed == 0 else 3, *command(out))
        results, drawn, there = identified(out)
        assert there == files
        assert drawn == pictures
        assert all(results[name].identical(whole[name]) for name in whole)


@pytest.mark.slow
def test_finetune_killed_at_random_moments(tiny_path, glue, tmp_path):
    def command(out):
        return ["finetune", "--task", "MRPC", "--data", glue, "--model", tiny_path, "--epochs", 8, "--out", out]

    assert start(*command(tmp_path / "whole")).wait() == 0
    files = listed(tmp_path / "whole")
    for seed in range(4):
        out = tmp_path / f"killed{seed}"
        assert kill_at_random(out, 2, seed, 6, *command(out)) == files
        for name in ("model.safetensors", "scores.json", "config.json", "settings.json"):
            assert (out / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name


def test_temporary_files_of_a_killed_run_are_removed(tiny_path, tmp_path):
    idf.run(texts(40), tiny_path, ["effective_attention"], out=tmp_path / "run")
    whole = listed(tmp_path / "run")
    leave_temporary_files(*(tmp_path / "run" / name for name in (".", "shards", "results.zarr", "figures")))
    (tmp_path / "run" / "results.zarr" / "zarr.0123abcd.partial").write_bytes(b"{")
    idf.run(texts(40), tiny_path, ["effective_attention"], out=tmp_path / "run", resume=True)
    assert listed(tmp_path / "run") == whole


def test_temporary_files_of_a_killed_identify_are_removed(tiny, tmp_path):
    out = tmp_path / "out"
    leave_temporary_files(out, out / "states")
    actual = idf.identify(tiny, texts(30), out, **QUICK)
    assert not [name for name in listed(out) if TEMPORARY in name]
    with locked(out), pytest.raises(RunError, match="another run is writing to"):
        idf.identify(tiny, texts(30), out, **QUICK)
    again = idf.identify(tiny, texts(30), out, **QUICK)
    assert again["token_identifiability"].identical(actual["token_identifiability"])


def test_a_finetune_killed_before_it_had_settings_starts_again(tiny_path, glue, tmp_path):
    leave_temporary_files(tmp_path / "out")
    (tmp_path / "out" / "lock").touch()
    idf.finetune(tiny_path, "MRPC", glue, out=tmp_path / "out", epochs=1, limit=32)
    assert not [name for name in listed(tmp_path / "out") if TEMPORARY in name]
