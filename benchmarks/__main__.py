"""python -m benchmarks [NAME …]: all of them, or those named."""

import sys
from importlib import import_module

from benchmarks.harness import DisturbedMachineError, keep_memory

NAMES = (
    "importing",
    "svd",
    "minilm",
    "smollm2",
    "intervals",
    "reading",
    "rerun",
    "attribution",
    "identifiability",
    "corpus",
    "browser",
)

if __name__ == "__main__":
    keep_memory()
    disturbed = False
    for name in sys.argv[1:] or NAMES:
        try:
            import_module(f"benchmarks.{name}").run()
        except DisturbedMachineError as error:
            disturbed = True
            print(f"---- {name}: {error}", flush=True)
    sys.exit(1 if disturbed else 0)
