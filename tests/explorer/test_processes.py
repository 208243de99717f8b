"""Heads are certified in several processes, none of which outlives the explorer."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from tests.models.families import words

# A tiny text is certified in processes too, whatever cores this machine has.
SERVER = """
from identiformer.measures.heads import certification
certification.SMALL = 0
certification.os.sched_getaffinity = lambda _: {0, 1}
from tests.explorer.tiny_server import main
main()
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="reads the processes of a session from /proc"),
]


def ask(address, body=None):
    with urlopen(Request(address, data=None if body is None else json.dumps(body).encode())) as response:
        return json.load(response)


def processes_of(session):
    """The processes that were started in a session and have not ended."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, of = path.read_text().rsplit(") ", 1)[1].split()[:4]
        except OSError:  # it ended
            continue
        if int(of) == session and state != "Z":
            found.append(path.parent.name)
    return found


@pytest.mark.parametrize("when", ["reading", "read"])
@pytest.mark.parametrize("how", ["stopped", "interrupted"])
def test_no_process_is_left(how, when):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    root = Path(__file__).parents[2]
    with subprocess.Popen([sys.executable, "-c", SERVER], cwd=root, text=True, start_new_session=True, **pipes) as server:
        address, model = server.stdout.readline().split()
        text = ask(f"{address}texts", {"text": words(50), "model": model})["id"]
        job = ask(f"{address}texts/{text}/jobs", {"task": "read heads"})
        while (len(processes_of(server.pid)) < 3) if when == "reading" else job["state"] != "done":
            time.sleep(0.05)
            job = ask(f"{address}jobs/{job['job']}")
            assert job["state"] in ("waiting", "running", "done")
        assert len(processes_of(server.pid)) > 2
        if how == "stopped":
            server.stdin.close()
        else:
            os.killpg(server.pid, signal.SIGINT)  # as Ctrl+C in a terminal
        server.wait(60)
        end = time.monotonic() + 10
        while processes_of(server.pid) and time.monotonic() < end:
            time.sleep(0.1)
        assert processes_of(server.pid) == []
