"""python -m benchmarks [NAME …]: run all of them, or those named, and write RESULTS.md and what the README quotes of it."""

import sys
from importlib import import_module

from benchmarks import results
from benchmarks.harness import MEASURED, DisturbedMachineError, keep_memory

NAMES = (
    "importing",
    "svd",
    "minilm",
    "smollm2",
    "intervals",
    "reading",
    "maps",
    "faithfulness",
    "effects",
    "rerun",
    "attribution",
    "generation",
    "identifiability",
    "corpus",
    "browser",
    "costs",
)

if __name__ == "__main__":
    keep_memory()
    disturbed = False
    for name in sys.argv[1:] or NAMES:
        MEASURED.clear()
        where = results.machine()
        try:
            import_module(f"benchmarks.{name}").run()
            results.write(name, MEASURED, where)
        except DisturbedMachineError as error:
            disturbed = True
            print(f"---- {name}: {error}", flush=True)
    sys.exit(1 if disturbed else 0)
