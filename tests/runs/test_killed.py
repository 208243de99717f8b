"""A run that is killed at any moment, or finds the disk full, continues and ends with the same bits."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

import identiformer as idf
from identiformer.errors import RunError
from tests.runs.tiny import bits, content, texts, write_tsv

MEASURES = ("effective_attention", "attention_identifiability")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_tsv(tmp_path_factory.mktemp("corpus") / "dev.tsv", texts(96))


@pytest.fixture(scope="module")
def undisturbed(tiny_path, corpus, tmp_path_factory):
    return idf.run(corpus, tiny_path, MEASURES, out=tmp_path_factory.mktemp("runs") / "run")


def start(corpus, model, out):
    command = [
        sys.executable,
        "-c",
        "from identiformer.cli import main; main()",
        "run",
        corpus,
        "--model",
        model,
        "--out",
        out,
        "--resume",
    ]
    path = os.pathsep.join(entry for entry in sys.path if entry)
    return subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": path})


def killed_and_resumed(corpus, model, out, moments, seed):
    """Kill a run at random moments after its first shard, and check that finished shards are not written again."""
    generator, kept = random.Random(seed), {}
    for _ in range(moments):
        process = start(corpus, model, out)
        known = len(list((out / "shards").glob("[!.]*.state"))) if out.exists() else 0
        limit = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < limit:
            if (out / "shards").is_dir() and len(list((out / "shards").glob("[!.]*.state"))) > known:
                break
            time.sleep(0.005)
        time.sleep(generator.uniform(0, 0.3))
        process.send_signal(signal.SIGKILL)
        process.wait()
        now = {path.name: path.stat().st_mtime_ns for path in (out / "shards").glob("[!.]*.state")}
        assert kept.items() <= now.items()
        kept = now
    run = idf.run(corpus, model, MEASURES, out=out, resume=True)
    after = {path.name: path.stat().st_mtime_ns for path in (out / "shards").iterdir()}
    assert kept.items() <= after.items()
    return run, len(kept)


def test_killed_at_a_random_moment(tiny_path, corpus, undisturbed, tmp_path):
    run, kept = killed_and_resumed(corpus, tiny_path, tmp_path / "run", 1, seed=1)
    assert bits(run) == bits(undisturbed)
    assert content(run.path).items() >= content(undisturbed.path).items()  # a run that finished before the kill has a report
    assert kept >= 1


@pytest.mark.slow
def test_killed_at_ten_random_moments(tiny_path, corpus, undisturbed, tmp_path):
    for seed in range(10):
        run, _ = killed_and_resumed(corpus, tiny_path, tmp_path / f"run{seed}", 1, seed)
        assert bits(run) == bits(undisturbed)
        assert content(run.path).items() >= content(undisturbed.path).items()


@pytest.fixture
def small_disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=28k", "tmpfs", disk], capture_output=True)
    if mounted.returncode:
        pytest.skip("a tmpfs cannot be mounted here")
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_a_full_disk_stops_the_run_without_loss(tiny_path, corpus, undisturbed, small_disk):
    with pytest.raises(RunError, match=r"the disk is full: .* all finished shards are kept, so make room and continue"):
        idf.run(corpus, tiny_path, MEASURES, out=small_disk / "run")
    kept = {path.name: path.stat().st_mtime_ns for path in (small_disk / "run" / "shards").iterdir()}
    assert kept
    assert all(name.endswith(".state") for name in kept)
    subprocess.run(["mount", "-o", "remount,size=8m", small_disk], check=True)
    run = idf.run(corpus, tiny_path, MEASURES, out=small_disk / "run", resume=True)
    assert bits(run) == bits(undisturbed)
    after = {path.name: path.stat().st_mtime_ns for path in (small_disk / "run" / "shards").iterdir()}
    assert kept.items() <= after.items()
