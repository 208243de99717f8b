"""Reproductions that are killed and continued are identical to uninterrupted ones."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from identiformer.files import TEMPORARY
from identiformer.results import open_result
from tests import killed
from tests.runs.tiny import texts, write_tsv

FIGURES = "2a,5,11,40"


def start(shared, out):
    command = [
        sys.executable, "-c", "from identiformer.cli import main; main()", "paper", "--data", shared / "data", "--out", out,
        "--model", "minilm", "--quick", "--figures", FIGURES,
    ]  # fmt: skip
    path = os.pathsep.join(folder for folder in sys.path if folder)
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, env=environment)


def content(out):
    """Pictures, grades and results."""
    files = [*sorted((out / "figures").glob("*.png")), out / "grades.json"]
    results = {path.name: open_result(path).load() for path in sorted((out / "results").iterdir())}
    return [path.read_bytes() for path in files], results


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.timeout(900)
def test_killed_three_times(shared, tmp_path):
    assert start(shared, tmp_path / "whole").wait() == 0
    generator, out = random.Random(3), tmp_path / "killed"
    for _ in range(3):
        process = start(shared, out)
        time.sleep(generator.uniform(12, 40))
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert start(shared, out).wait() == 0
    (pictures, results), (expected_pictures, expected) = content(out), content(tmp_path / "whole")
    assert pictures == expected_pictures
    assert results.keys() == expected.keys()
    assert all(results[name].identical(expected[name]) for name in expected)


@pytest.mark.slow
def test_tiny_model_killed_at_random_times(tiny_path, tmp_path):
    (tmp_path / "glue" / "MRPC").mkdir(parents=True)
    write_tsv(tmp_path / "glue" / "MRPC" / "dev.tsv", texts(12))

    def command(out):
        return ["paper", "--data", tmp_path / "glue", "--model", tiny_path, "--quick", "--figures", "2a,3,6,19", "--out", out]

    assert killed.start(*command(tmp_path / "whole")).wait() == 0
    pictures, results = content(tmp_path / "whole")
    assert len(pictures) == 5
    for seed in range(3):
        out = tmp_path / f"killed{seed}"
        files = killed.kill_at_random(out, 2, seed, 6, *command(out))
        assert not [name for name in files if TEMPORARY in name or name.endswith(".partial")]
        resumed_pictures, resumed = content(out)
        assert resumed_pictures == pictures
        assert results.keys() == resumed.keys()
        assert all(results[name].identical(resumed[name]) for name in results)
