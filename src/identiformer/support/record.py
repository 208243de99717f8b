"""The record of which architectures work. It needs no torch, so that a wrong name is answered at once."""

import json
from collections.abc import Sequence
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from identiformer.errors import InputError

RECORD = files("identiformer.support") / "architectures.json"
"""The results of `make docs`, which checks every architecture."""


def read_record() -> dict[str, Any]:
    """The version of transformers whose `architectures` were checked, and what was found for each."""
    return json.loads(RECORD.read_text(encoding="utf-8"))


def check_known(names: Sequence[str], known: Sequence[str]) -> None:
    """Raise if a name is not that of an architecture."""
    for name in names:
        if name not in known:
            raise InputError(f"expected architectures that `identiformer models` lists, got {name!r}.")


def check_recorded(names: Sequence[str]) -> None:
    """Raise if a name is not in the record, where the record is of the installed transformers."""
    record = read_record()
    if record["transformers"] == version("transformers"):
        check_known(names, [row["architecture"] for row in record["architectures"]])
