"""How long `import identiformer` takes, beyond starting Python."""

import statistics
import subprocess
import sys
import time

from benchmarks.harness import report


def run() -> None:
    def seconds(code: str) -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - start

    pairs = [(seconds("import identiformer"), seconds("pass")) for _ in range(10)]
    report("import identiformer, in seconds", statistics.median(ours - bare for ours, bare in pairs), 0.3, True)
