"""A process that runs cases one after the other and judges them; it may hang or die, which its parent notices.

`python -m tests.fuzz.worker FOLDER` reads a case's number from each line of standard input and prints its verdict as JSON.
"""

import io
import json
import os
import random
import resource
import shutil
import sys
import time
import traceback
from pathlib import Path

from identiformer.cli.application import run_command, warnings_as_sentences
from identiformer.models import load
from tests.explorer.malformed import is_a_sentence
from tests.fuzz.page import Page, request
from tests.fuzz.surfaces import COMMANDS, Damage, make_shared

MOST_MEMORY = 12 * 2**30
NOTES = ("warning: ", "note: ")
"""How lines begin that are no error; bars of transformers are none either."""
SCRATCH = (".writing-", ".partial")


class Worker:
    """Inputs as they should be, answers to them, and what a damaged one may lead to."""

    def __init__(self, root):
        self.root, self.pristine, self.answers, self._page = root, root / "pristine", {}, None
        self.surfaces = len(COMMANDS) + 1
        for name in ("shared", "pristine", "cases", "here"):
            (root / name).mkdir()
        make_shared(root / "shared")
        os.chdir(root / "here")

    def case(self, number):
        """Run one case: which it was, how it ended, and what is wrong with that."""
        chance, begun, surface = random.Random(number), time.monotonic(), number % self.surfaces
        try:
            verdict = self._ask_page(chance) if surface == len(COMMANDS) else self._run(COMMANDS[surface], chance, str(number))
        except Exception:
            verdict = {"wrong": [f"the fuzzer itself failed: {traceback.format_exc()[-900:]}"]}
        return {"case": number, "seconds": round(time.monotonic() - begun, 2), **verdict}

    def prepare(self, number):
        """Make what a case damages, where it is the first of its kind, and find the answer to it undamaged."""
        if number % self.surfaces == len(COMMANDS):
            self._page = self._page or Page(load(self.root / "shared" / "model"))
            return
        surface = COMMANDS[number % self.surfaces]
        if surface.name not in self.answers:
            surface.make(self.pristine / surface.name)
            verdict = self._run(surface, None, "undamaged")
            assert verdict["status"] == 0, verdict
            assert not verdict["wrong"], verdict
            self.answers[surface.name] = verdict["answer"]

    def _run(self, surface, chance, name):
        folder = self.root / "cases" / name
        damaged, out = folder / "damaged", folder / "out"
        shutil.copytree(self.pristine / surface.name, damaged)
        damage = surface.damage(chance, damaged) if chance else Damage("nothing", may_differ=False)
        before = _snapshot(self.root)
        statuses, printed, complaint = [], "", ""
        for words in surface.commands(damaged, out):
            status, printed, complaint = _call(words)
            statuses.append(status)
            if status != 0:
                break
        wrong = _judge(status, printed, complaint)
        changed = {path for path in _differences(before, _snapshot(self.root)) if not path.startswith(str(out))}
        if surface.writes_input:
            changed = {path for path in changed if not path.startswith(str(damaged))}
        wrong += [f"changed {path}" for path in sorted(changed)[:3]]
        wrong += [f"left {path}" for path in _left_over(folder)]
        actual = None
        if status == 0 and not wrong:
            try:
                actual = surface.answer(printed)
            except (ValueError, KeyError, IndexError) as error:
                wrong.append(f"an answer that cannot be read ({error!r})")
            if chance and not surface.right(damaged, printed):
                wrong.append(f"a wrong answer: {printed[:200]}")
            if chance and not damage.may_differ and actual != self.answers[surface.name]:
                wrong.append("another answer, without a word")
        shutil.rmtree(folder)
        message = complaint.strip().splitlines()[-1:] if status else []
        return {
            "surface": surface.name,
            "damage": damage.what,
            "status": status,
            "message": message,
            "wrong": wrong,
            "answer": None if chance else actual,
        }

    def _ask_page(self, chance):
        method, path, body, what = request(chance, self._page.text)
        before, wrong = _snapshot(self.root), []
        try:
            status, message = self._page.finished(*self._page.ask(method, path, body))
        except Exception:
            status, message, wrong = 0, "", [traceback.format_exc()[-600:]]
        if status >= 500 or not status:
            wrong.append(f"status {status}")
        if 400 <= status < 500 and not is_a_sentence(message):
            wrong.append("not a sentence")
        wrong += [f"changed {path}" for path in _differences(before, _snapshot(self.root))]
        return {"surface": "page", "damage": f"{method} {what}", "status": status, "message": [message[:200]], "wrong": wrong}


def _call(words):
    """Run a command as `main` would: its status, and what it printed; a traceback where it would have ended in one."""
    streams = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    try:
        try:
            with warnings_as_sentences():
                status = run_command(words)
        except BaseException:
            status = traceback.format_exc()[-900:]
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        printed, complaint = (stream.buffer.getvalue().decode() for stream in (sys.stdout, sys.stderr))
    finally:
        sys.stdout, sys.stderr = streams
    return status, printed, complaint


def _judge(status, printed, complaint):
    """Either an answer, or one sentence and status 2."""
    lines = [line for line in complaint.splitlines() if line.strip() and not line.startswith(NOTES) and "%|" not in line]
    if status == 0:
        return [f"on standard error: {lines[:3]}"] if lines else []
    if status != 2:
        return [f"status {status}"]
    wrong = [] if len(lines) == 1 and lines[0].startswith("error: ") else [f"expected one sentence: {lines[:4]}"]
    return wrong + ["an answer and an error" for line in printed.splitlines() if '"done"' not in line][:1]


def _snapshot(root):
    """Every name under a folder, with what changes when it is written to."""
    actual = {}
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = os.path.join(folder, name)
            about = os.lstat(path)
            actual[path] = (about.st_mode, about.st_size, about.st_mtime_ns if name in files else 0)
    return actual


def _differences(before, after):
    return {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}


def _left_over(folder):
    return [str(path.relative_to(folder)) for path in folder.rglob("*") if path.name.startswith(SCRATCH) or ".zarr-" in path.name]


def main():
    root = Path(sys.argv[1])
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever else is printed
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    sys.argv[0] = "identiformer"
    worker = Worker(root)
    for line in sys.stdin:
        worker.prepare(int(line))
        print(json.dumps({"ready": True}), file=answers, flush=True)
        print(json.dumps(worker.case(int(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
