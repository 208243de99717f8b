"""Where a corpus comes from: a file, a folder of GLUE or ERASER or of cues, standard input, a Hugging Face dataset, or a list."""

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from pathlib import Path, PurePath
from typing import Any

from identiformer.errors import InputError, first_line, require_package
from identiformer.files import require_regular
from identiformer.texts.example import Example
from identiformer.texts.readers.evidence import PLANTED, SPLIT, cue_source, is_cues, is_eraser, planted_source, read_eraser
from identiformer.texts.readers.formats import READERS, SUFFIXES, Columns, Reader, example_of_record
from identiformer.texts.readers.lines import START, Lines, Mark, Source, numbered, unreadable_as_input_error

Corpus = str | os.PathLike[str] | Sequence[str | tuple[str, str] | Example]
"""The path of a file or of a folder of GLUE, ERASER or cues, `planted:KIND` for generated texts, `-` for standard input, the name
of a dataset, or a list of texts, pairs and examples."""

GLUE_FILES = ("dev.tsv", "dev_matched.tsv")


def open_source(corpus: Corpus, columns: Columns | None = None, corpus_format: str | None = None) -> Source:
    """Find out how to read a corpus; nothing of it is read yet except the header of a table.

    Without a format, the suffix of a file decides, and standard input is read as lines.
    """
    if corpus_format is not None and corpus_format not in READERS:
        raise InputError(f"expected a format of {', '.join(READERS)}, got {corpus_format!r}.")
    columns = columns or Columns()
    if not isinstance(corpus, str | os.PathLike):
        return numbered("texts", lambda: len(corpus), lambda number: _as_example(corpus[number]))
    if corpus == "-":
        return _standard_input(columns, corpus_format or "lines")
    if isinstance(corpus, str) and corpus.startswith(PLANTED):
        return planted_source(corpus)
    path = Path(corpus)
    with unreadable_as_input_error(path):
        if corpus_format is None and columns == Columns():
            if is_eraser(path):
                path = path / SPLIT if path.is_dir() else path
                return _file_source(str(path), path, read_eraser)
            if is_cues(path):
                return cue_source(path)
        if path.is_dir():
            path = _glue_file(path)
        if not os.path.lexists(path) and looks_like_a_dataset(str(corpus), SUFFIXES):
            return _hub_dataset(str(corpus), columns)
        try:
            require_regular(path)
        except FileNotFoundError:
            dangling = "a symbolic link to nothing" if path.is_symlink() else "none"
            raise InputError(f"expected a corpus file, but there is {dangling} at {path}; check the path.") from None
    corpus_format = corpus_format or SUFFIXES.get(path.suffix.lower())
    if corpus_format is None:
        raise InputError(
            f"expected a corpus file ending in {', '.join(SUFFIXES)}, got {path.name}; choose its format with --format "
            f"({', '.join(READERS)})."
        )
    return _file_source(str(path), path, *READERS[corpus_format](path, columns))


def _file_source(name: str, path: Path, reader: Reader, first: Mark = START, temporary_file: Any = None) -> Source:
    """The examples of one file; a temporary one is deleted when the source goes away."""

    def read_from(start: Mark, kept: Any = temporary_file) -> Iterator[tuple[Example, Mark]]:
        lines = Lines(path, start)
        for example in reader(lines):
            yield example, lines.mark

    return Source(name, read_from, first)


def _standard_input(columns: Columns, corpus_format: str) -> Source:
    # A corpus is read twice, first for its hash and size, so a pipe is copied to disk.
    copy = tempfile.NamedTemporaryFile(prefix="identiformer-", suffix=".corpus")  # noqa: SIM115
    with unreadable_as_input_error(Path("-")):
        shutil.copyfileobj(sys.stdin.buffer, copy)
        copy.flush()
    path = Path(copy.name)
    return _file_source("standard input", path, *READERS[corpus_format](path, columns), copy)


def _glue_file(folder: Path) -> Path:
    for name in GLUE_FILES:
        if (folder / name).is_file():
            return folder / name
    names = ", ".join(sorted(path.name for path in folder.iterdir())[:20]) or "nothing"
    raise InputError(
        f"expected {' or '.join(GLUE_FILES)} of GLUE, docs and {SPLIT} of ERASER, or tables of cues in the folder {folder}, but "
        f"there is {names}; name the file itself."
    )


def _as_example(item: str | tuple[str, str] | Example) -> Example:
    if isinstance(item, Example):
        return item
    if isinstance(item, tuple | list) and len(item) == 2:
        return Example(*item)
    return Example(item)  # pyright: ignore[reportArgumentType]  Example rejects anything but text


NAME = re.compile(r"[\w.-]+(/[\w.-]+)?(:[\w.-]+){0,2}")


def looks_like_a_dataset(name: str, file_suffixes: Collection[str]) -> bool:
    """Check whether a name has the form NAME or OWNER/NAME, optionally with :SPLIT or :CONFIG:SPLIT, and not that of a file."""
    return NAME.fullmatch(name) is not None and PurePath(name).suffix.lower() not in file_suffixes


def _hub_dataset(dataset: str, columns: Columns) -> Source:
    """The examples of one split; the package `datasets` keeps them on disk, not in memory."""

    @cache
    def rows() -> tuple[Any, tuple[str, ...]]:
        require_package("datasets", "corpus", f"{dataset} is not a file here, and datasets of the hub need a package")
        import datasets  # pyright: ignore[reportMissingImports]

        name, *rest = dataset.split(":")
        split = rest[-1] if rest else "validation"
        try:
            split_rows = datasets.load_dataset(name, rest[0] if len(rest) == 2 else None, split=split)
        except Exception as error:  # loaders of datasets raise exceptions of every kind
            raise InputError(f"{dataset} is neither a file nor a readable dataset of the hub: {first_line(error)}") from error
        return split_rows, columns.choose(split_rows.column_names, f"the dataset {dataset}")

    def example(number: int) -> Example:
        records, names = rows()
        return example_of_record(records[number], names, f"row {number} of the dataset {dataset}")

    return numbered(dataset, lambda: len(rows()[0]), example)
