"""Run commands, kill them at random moments, and let them finish."""

import os
import random
import signal
import subprocess
import sys
import time

from identiformer.files import TEMPORARY


def start(*arguments):
    command = [sys.executable, "-c", "from identiformer.cli import main; main()", *map(str, arguments)]
    path = os.pathsep.join(entry for entry in sys.path if entry)
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)


def kill_at_random(out, moments, seed, seconds, *arguments):
    """Kill a command several times, within some seconds of its first file, and let it finish; return the files in its folder."""
    generator = random.Random(seed)
    for _ in range(moments):
        before = listed(out)
        process = start(*arguments)
        limit = time.monotonic() + 120
        while process.poll() is None and listed(out) == before and time.monotonic() < limit:
            time.sleep(0.005)
        time.sleep(generator.uniform(0, seconds))
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert start(*arguments).wait() == 0
    return listed(out)


def listed(folder):
    """Every file and folder below a folder, by its path."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*")) if folder.is_dir() else []


def leave_temporary_files(*folders):
    """Leave an unfinished file and an unfinished folder, as a killed process may do."""
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{TEMPORARY}file").write_bytes(b"half")
        (folder / f"{TEMPORARY}folder").mkdir()
        (folder / f"{TEMPORARY}folder" / "file").write_bytes(b"half")
