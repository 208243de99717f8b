"""The command line: each command parses its arguments, calls one function and prints."""

import gc
import sys
from typing import NoReturn

from identiformer.cli import attribute, compare, explore, generate, identify, inspect, models, paper, run  # noqa: F401  each adds its commands
from identiformer.cli.application import app, interrupt_on_signals, run_command, warnings_as_sentences

__all__ = ["app", "main", "run_command"]


def main() -> NoReturn:
    """Run the command of this process, and exit with its status."""
    interrupt_on_signals()
    with warnings_as_sentences():
        status = run_command()
    gc.freeze()  # otherwise Python takes a second at the end to collect the objects of torch and transformers
    sys.exit(status)
