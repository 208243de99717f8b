"""The command line: parse, call one function, print."""

import sys
from typing import NoReturn

from identiformer.cli import attribute, explore, finetune, identify, inspect, models, paper, run  # noqa: F401  each adds its commands
from identiformer.cli.shared import app, errors
from identiformer.errors import IdentiformerError


def main() -> NoReturn:
    """Run a command; an error that we know is one sentence and exit status 2."""
    try:
        app()
    except IdentiformerError as error:
        errors.print(f"error: {error}", markup=False, highlight=False, soft_wrap=True)
        sys.exit(2)
    sys.exit(0)
