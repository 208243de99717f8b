"""Damaged input of every kind: an answer that is right, or one sentence; no traceback, no hang, nothing written elsewhere.

A case is its number: `pytest tests/fuzz -k case-17` runs it again, and `-m slow` those that take minutes.
"""

import json
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path

import pytest

QUICK, ALL = 120, 2200
PATIENCE = 30
"""Seconds for a case; more is a hang."""
ROOT = Path(__file__).parents[2]


class Process:
    """A worker, made again where a case ends it."""

    def __init__(self, folders):
        self.folders, self.running = folders, None

    def start(self):
        folder = self.folders.mktemp("fuzz")
        for name in ("home", "scratch"):
            (folder / name).mkdir()
        paths = os.pathsep.join((str(ROOT), str(ROOT / "src")))
        variables = {
            "HF_HUB_OFFLINE": "1",
            "HF_HOME": str(folder / "home"),
            "TMPDIR": str(folder / "scratch"),
            "OMP_NUM_THREADS": "1",
        }
        self.running = subprocess.Popen(
            (sys.executable, "-m", "tests.fuzz.worker", str(folder)),
            env=os.environ | variables | {"PYTHONPATH": paths, "PYTHONUTF8": "1"}, cwd=folder,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, encoding="utf-8",
        )  # fmt: skip
        self.messages = queue.Queue()
        threading.Thread(target=self._listen, args=(self.running.stdout, self.messages), daemon=True).start()

    @staticmethod
    def _listen(stream, messages):
        for line in stream:
            messages.put(json.loads(line))
        messages.put(None)

    def _next(self, patience):
        try:
            return self.messages.get(timeout=patience)
        except queue.Empty:
            return "hang"

    def case(self, number):
        if self.running is None or self.running.poll() is not None:
            self.start()
        self.running.stdin.write(f"{number}\n")
        self.running.stdin.flush()
        assert self._next(240) == {"ready": True}, "the undamaged input is not read, or the process does not start"
        verdict = self._next(PATIENCE)
        if not isinstance(verdict, dict):
            self.stop()
        return verdict

    def stop(self):
        if self.running is not None:
            self.running.kill()
            self.running.wait()
            self.running.stdin.close()
            self.running.stdout.close()
            self.running = None


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    process = Process(tmp_path_factory)
    yield process
    process.stop()


def _cases():
    for number in range(ALL):
        yield pytest.param(number, id=f"case-{number}", marks=[pytest.mark.slow] if number >= QUICK else [])


@pytest.mark.parametrize("number", list(_cases()))
def test_damaged_input_is_handled_correctly_or_rejected_in_one_sentence(process, number):
    verdict = process.case(number)
    assert verdict != "hang", f"case {number} takes longer than {PATIENCE} seconds"
    assert verdict is not None, f"case {number} ends the process"
    assert verdict["wrong"] == [], verdict
