"""The command line: parse, call one function, print."""

import sys
from typing import NoReturn

from identiformer.cli import attribute, explore, finetune, identify, inspect, models, paper, run  # noqa: F401  each adds its commands
from identiformer.cli.boundary import run_command, warnings_as_sentences
from identiformer.cli.shared import app

__all__ = ["app", "main", "run_command"]


def main() -> NoReturn:
    """Run the command that the process was started with, and exit with its status."""
    with warnings_as_sentences():
        sys.exit(run_command())
