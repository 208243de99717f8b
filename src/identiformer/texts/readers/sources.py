"""Where a corpus comes from: a file, a folder of GLUE, standard input, a Hugging Face dataset, or texts at hand."""

import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from identiformer.errors import InputError
from identiformer.files import require_regular
from identiformer.texts.example import Example
from identiformer.texts.readers.columns import Columns
from identiformer.texts.readers.hub_dataset import HubDataset, looks_like_a_dataset
from identiformer.texts.readers.jsonl import JsonReader
from identiformer.texts.readers.lines import Lines, Mark, unreadable_is_an_error
from identiformer.texts.readers.plain import LineReader, ParagraphReader
from identiformer.texts.readers.table import open_table

Corpus = str | os.PathLike[str] | Sequence[str | tuple[str, str] | Example]
"""The path of a file or a GLUE folder, `-` for standard input, the name of a dataset, or texts, pairs of texts and examples."""

FORMATS = {".tsv": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".txt": "lines", ".raw": "lines"}
FORMAT_NAMES = (*dict.fromkeys(FORMATS.values()), "paragraphs")
GLUE_FILES = ("dev.tsv", "dev_matched.tsv")


@runtime_checkable
class Source(Protocol):
    """Examples in their order, each with the mark from which the next one is read."""

    @property
    def name(self) -> str: ...
    def read(self, start: Mark | None = None) -> Iterator[tuple[Example, Mark]]: ...


@runtime_checkable
class Reader(Protocol):
    """Finds the examples among the lines of a file."""

    def examples(self, lines: Lines) -> Iterator[tuple[Example, Mark]]: ...


@dataclass(frozen=True)
class FileSource:
    """The examples of one file."""

    path: Path
    reader: Reader
    first: Mark
    name: str
    spool: Any = None
    """What keeps a file of standard input alive."""

    def read(self, start: Mark | None = None) -> Iterator[tuple[Example, Mark]]:
        yield from self.reader.examples(Lines(self.path, start or self.first))


@dataclass(frozen=True)
class TextsSource:
    """Texts at hand."""

    texts: Sequence[str | tuple[str, str] | Example]
    name: str = "texts"

    def read(self, start: Mark | None = None) -> Iterator[tuple[Example, Mark]]:
        for number in range((start or Mark()).place, len(self.texts)):
            yield _as_example(self.texts[number]), Mark(number + 1)


def open_source(corpus: Corpus, columns: Columns | None = None, form: str | None = None) -> Source:
    """Find out how a corpus is read, and read nothing of it yet but a table's header.

    form: one of tsv, csv, jsonl, lines, paragraphs; without it, what the file's name says, and lines from standard input.
    """
    if form is not None and form not in FORMAT_NAMES:
        raise InputError(f"expected a format of {', '.join(FORMAT_NAMES)}, got {form!r}.")
    columns = columns or Columns()
    if not isinstance(corpus, str | os.PathLike):
        return TextsSource(corpus)
    if corpus == "-":
        return _standard_input(columns, form or "lines")
    path = Path(corpus)
    with unreadable_is_an_error(path):
        if _is_folder(path):
            path = _glue_file(path)
        if not os.path.lexists(path) and looks_like_a_dataset(str(corpus), FORMATS):
            return HubDataset(str(corpus), columns)
        try:
            require_regular(path)
        except FileNotFoundError:
            dangling = "a symbolic link that leads nowhere" if path.is_symlink() else "none"
            raise InputError(f"expected a file with a corpus, but there is {dangling} at {path}; check the path.") from None
    form = form or FORMATS.get(path.suffix.lower())
    if form is None:
        raise InputError(
            f"expected a corpus as {', '.join(FORMATS)}, got {path.name}; say what it is with --format "
            f"({', '.join(FORMAT_NAMES)})."
        )
    return _file(path, columns, form, str(path))


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False


def _file(path: Path, columns: Columns, form: str, name: str, spool: Any = None) -> FileSource:
    if form in ("tsv", "csv"):
        return FileSource(path, *open_table(path, form, columns), name, spool)
    readers: dict[str, Reader] = {"jsonl": JsonReader(columns), "lines": LineReader(), "paragraphs": ParagraphReader()}
    return FileSource(path, readers[form], Mark(), name, spool)


def _standard_input(columns: Columns, form: str) -> FileSource:
    # A corpus is read twice, once to know what it is: what comes through a pipe is kept on disk meanwhile.
    spool = tempfile.NamedTemporaryFile(prefix="identiformer-", suffix=".corpus")  # noqa: SIM115
    with unreadable_is_an_error(Path("-")):
        shutil.copyfileobj(sys.stdin.buffer, spool)
        spool.flush()
    return _file(Path(spool.name), columns, form, "standard input", spool)


def _glue_file(folder: Path) -> Path:
    for name in GLUE_FILES:
        if (folder / name).is_file():
            return folder / name
    there = ", ".join(sorted(path.name for path in folder.iterdir())[:20]) or "nothing"
    raise InputError(f"expected {' or '.join(GLUE_FILES)} in the folder {folder}, but there is {there}; name the file itself.")


def _as_example(item: str | tuple[str, str] | Example) -> Example:
    if isinstance(item, Example):
        return item
    if isinstance(item, tuple | list) and len(item) == 2:
        return Example(*item)
    return Example(item)  # pyright: ignore[reportArgumentType]  which says what it expects of anything else
