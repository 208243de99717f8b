"""The entries of gallery.toml: reports with the commands that make them, and one figure per drawing function with its code."""

import tomllib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Report:
    """A report: its file in the gallery, and the shell command or Python lines that write it there."""

    title: str
    file: str
    shows: str
    command: str


@dataclass(frozen=True)
class FigureEntry:
    """A figure: the drawing function, and the code whose last line draws it."""

    function: str
    shows: str
    code: str
    image: str | None = None
    """A picture in docs that the code made, where it needs data that not every machine has."""


_entries = tomllib.loads(Path(__file__).with_name("gallery.toml").read_text(encoding="utf-8"))
PRELUDE: str = _entries["prelude"]
REPORTS = tuple(Report(**entry) for entry in _entries["report"])
FIGURES = tuple(FigureEntry(**entry) for entry in _entries["figure"])
