"""The command line: each command parses its arguments, calls one function and prints."""

import sys
from typing import NoReturn

from identiformer.cli import attribute, compare, explore, generate, identify, inspect, models, paper, run  # noqa: F401  each adds its commands
from identiformer.cli.application import app, run_command, warnings_as_sentences

__all__ = ["app", "main", "run_command"]


def main() -> NoReturn:
    """Run the command of this process, and exit with its status."""
    with warnings_as_sentences():
        sys.exit(run_command())
