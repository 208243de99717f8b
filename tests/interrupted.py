"""Interrupt commands in the middle of a named function, as Ctrl-C or `timeout` would, and look at what is left of them.

Run as a program, it is the command line with one function replaced: the n-th call of that function is interrupted after a part of
the time that earlier calls took. A call that ends earlier waits, so that the interruption is always inside it.
"""

import functools
import importlib
import inspect
import json
import os
import secrets
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

MARK = "IDENTIFORMER_TESTED_COMMAND"
"""A variable in the environment of a command, which every process that it starts inherits."""
DEADLINE = "deadline"
"""In place of a signal: that of `timeout`, which ends the command in its own way."""
NO_PROGRESS = {"identiformer.progress:SECONDS": 1000}
"""No plain lines of progress on standard error, which a busy machine would have time for."""


@dataclass(frozen=True)
class Outcome:
    """How a command ended, and which of its processes were alive a second later."""

    status: int
    out: str
    errors: str
    seconds: float
    """From the signal to the end."""
    survivors: list[str]


def interrupt(function, call, share, *arguments, number=signal.SIGINT, values=None, awaited=None):
    """Run a command and send it a signal in a call of a function.

    share: the part of the usual time of a call that it gets, where the first call takes 0.02 s; awaited: a folder and a pattern
    of which a file must be there before that time begins.
    """
    mark = secrets.token_hex(8)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        plan = {
            "function": function,
            "call": call,
            "share": share,
            "number": number if number == DEADLINE else int(number),
            "log": str(log),
            "values": NO_PROGRESS | (values or {}),
            "awaited": awaited and [str(part) for part in awaited],
        }
        command = [sys.executable, "-m", "tests.interrupted", json.dumps(plan), *map(str, arguments)]
        if number == DEADLINE:
            command = ["timeout", "600", *command]
        path = os.pathsep.join((str(Path(__file__).parents[1]), *(entry for entry in sys.path if entry)))
        environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", MARK: mark}
        with Path(folder, "out").open("w+") as out, Path(folder, "errors").open("w+") as errors:
            process = subprocess.Popen(command, stdout=out, stderr=errors, env=environment, start_new_session=True)
            status = process.wait(240)
            ended = time.time()
            time.sleep(1)
            survivors = processes_of(mark)
            out.seek(0), errors.seek(0)
            sent = float(log.read_text()) if log.exists() else float("nan")
            return Outcome(status, out.read(), errors.read(), ended - sent, survivors)


def processes_of(mark):
    """The command lines of the processes with a mark in their environment; a process that ended and is not reaped has none."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:  # it has ended meanwhile, or is not ours
            continue
    return found


@contextmanager
def counted(*functions):
    """Count the calls of functions, such as "identiformer.runs.finished_run:finish", or the items that a generator yields."""
    calls = Counter()
    originals = [(function, *_attribute(function)) for function in functions]
    for function, owner, name in originals:
        _wrap(owner, name, lambda function=function: calls.update([function]))
    try:
        yield calls
    finally:
        for _, owner, name in originals:
            setattr(owner, name, getattr(owner, name).__wrapped__)


def _attribute(function):
    module, _, path = function.partition(":")
    *owners, name = path.split(".")
    return functools.reduce(getattr, owners, importlib.import_module(module)), name


def _wrap(owner, name, before, after=lambda: None):
    original = getattr(owner, name)

    @functools.wraps(original)
    def call(*arguments, **options):
        before()
        result = original(*arguments, **options)
        after()
        return result

    @functools.wraps(original)
    def items(*arguments, **options):
        with closing(original(*arguments, **options)) as generator:
            for item in generator:
                before()
                yield item
                after()

    setattr(owner, name, items if inspect.isgeneratorfunction(original) else call)


def main():
    plan = json.loads(sys.argv.pop(1))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # the tests may run in the background, where a shell ignores it
    for name, value in plan["values"].items():
        setattr(*_attribute(name), value)
    calls, spent, begun = 0, [], 0.0

    def send(delay):
        while plan["awaited"] and not list(Path(plan["awaited"][0]).glob(plan["awaited"][1])):
            time.sleep(0.01)
        time.sleep(delay)
        Path(plan["log"]).write_text(str(time.time()))
        number = plan["number"]
        if number == DEADLINE:
            os.kill(os.getppid(), signal.SIGALRM)  # as its timer does
            return
        if number != signal.SIGINT:  # `timeout` sends a signal to the process, and then to its group
            os.kill(os.getpid(), number)
        os.killpg(os.getpgrp(), number)  # a terminal sends it to all processes of the command

    def before():
        nonlocal calls, begun
        calls, begun = calls + 1, time.monotonic()
        if calls == plan["call"]:
            delay = plan["share"] * (statistics.median(spent) if spent else 0.02)
            threading.Thread(target=send, args=[delay], daemon=True).start()

    def after():
        spent.append(time.monotonic() - begun)
        limit = time.monotonic() + 60
        while calls == plan["call"] and time.monotonic() < limit:
            time.sleep(0.001)

    _wrap(*_attribute(plan["function"]), before, after)
    sys.argv[0] = "identiformer"
    from identiformer.cli import main as command_line

    command_line()


if __name__ == "__main__":
    main()
