"""The file formats of corpora, and which columns or fields hold the texts and the tags of their words.

To add one, write a function that yields the examples among the lines of a file, and add it to `READERS`; add the suffix of its
files, if they have one, to `SUFFIXES`.
"""

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from identiformer.errors import InputError
from identiformer.texts.example import Example, example_at
from identiformer.texts.readers.lines import LONGEST_LINE, START, Lines, Mark, json_records

Reader = Callable[[Lines], Iterator[Example]]
"""Yields the examples among the lines of a file."""

# A quotation mark in a tab-separated corpus is a character of the text: read as a quote, it would swallow tabs and whole lines.
DIALECTS = {
    "tsv": {"delimiter": "\t", "quoting": csv.QUOTE_NONE},
    "csv": {"delimiter": ",", "quoting": csv.QUOTE_MINIMAL, "strict": True},
}
COLA_COLUMNS = 4
"""Source, label, the author's mark, sentence: CoLA is the only GLUE task without a header."""
KNOWN: tuple[tuple[str, ...], ...] = (
    ("#1 String", "#2 String"),
    ("sentence1", "sentence2"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("premise", "hypothesis"),
    ("sentence",),
    ("text",),
)
"""Names of the columns of the first text and the second in GLUE tasks and other corpora."""


def tag_column(name: str) -> str:
    """Return the name of the column that holds the tags of the words of another column."""
    return f"{name} tags"


@dataclass(frozen=True)
class Columns:
    """The columns that a user chose; without a choice, those of a known name are read."""

    text: str | None = None
    pair: str | None = None

    def __post_init__(self) -> None:
        if self.pair is not None and self.text is None:
            raise InputError(f"expected a column for the first text, got only {self.pair!r} for the second; add --text-column.")

    def choose(self, present: Sequence[str], where: str) -> tuple[str, ...]:
        """Return the names of the one or two columns to read, of those that are present."""
        chosen = tuple(name for name in (self.text, self.pair) if name is not None)
        for names in (chosen,) if chosen else KNOWN:
            if all(name in present for name in names):
                return names
        expected = " and ".join(map(repr, chosen)) or "of texts"
        raise InputError(
            f"expected the column{'' if len(chosen) == 1 else 's'} {expected} in {where}, but there are "
            f"{', '.join(map(repr, present))[:400]}; choose with --text-column and --pair-column (text_column=, pair_column=)."
        )


def example_of_record(record: Mapping[str, Any], names: Sequence[str], where: str) -> Example:
    """Return the example in these fields of a JSON object or a row of a dataset, with tags if the record has them."""
    texts = [record[name] for name in names]
    if not all(isinstance(text, str) and text.strip() for text in texts):
        raise InputError(f"expected texts that are not empty in {where}, got {', '.join(map(repr, texts))[:60]}.")
    tags = [record.get(tag_column(name)) for name in names]
    for name, words in zip(names, tags, strict=True):
        if not isinstance(words, str | None):
            raise InputError(f"expected tags separated by spaces under {tag_column(name)!r} in {where}, got {str(words)[:60]}.")
    return example_at(where, [text.strip() for text in texts], [words and words.strip() for words in tags])


def read_lines(lines: Lines) -> Iterator[Example]:
    """Plain text, one example per line that is not blank."""
    return (Example(text) for line in lines if (text := line.strip()))


def read_paragraphs(lines: Lines) -> Iterator[Example]:
    """Plain text, one example per paragraph: its lines up to the next blank one, joined by spaces."""
    paragraph: list[str] = []
    for line in lines:
        if text := line.strip():
            paragraph.append(text)
        elif paragraph:
            yield Example(" ".join(paragraph))
            paragraph = []
    if paragraph:
        yield Example(" ".join(paragraph))


def read_json_lines(columns: Columns, lines: Lines) -> Iterator[Example]:
    """JSON Lines, one object per line, with the texts as strings in some of its fields."""
    for record in json_records(lines):
        if not isinstance(record, dict):
            raise InputError(f"expected a JSON object in {lines.where}, got {str(record)[:60]!r}; repair or remove the line.")
        yield example_of_record(record, columns.choose(list(record), lines.where), lines.where)


def read_table(dialect: str, texts: Sequence[int], tags: Sequence[int | None], lines: Lines) -> Iterator[Example]:
    """The rows of a table after its header, with the texts, and the tags of their words, in columns of these numbers."""
    return (example_of_row(row, lines.where, texts, tags) for row in table_rows(lines, dialect))


def example_of_row(row: list[str], where: str, texts: Sequence[int], tags: Sequence[int | None] = (None, None)) -> Example:
    """The example in the cells of a row; None stands for tags that the table does not have."""
    cells = dict(enumerate(cell.strip() for cell in row))
    found = [cells.get(column, "") for column in texts]
    if not all(found):
        raise InputError(
            f"expected {len(found)} nonempty text(s) in {where}, got {len(row)} columns without all of them; repair or "
            f"remove the line."
        )
    return example_at(where, found, [None if column is None else cells.get(column, "") for column in tags])


def table_rows(lines: Lines, dialect: str) -> Iterator[list[str]]:
    """Yield the cells of each row of a table, its header included."""
    reader = csv.reader(lines, **DIALECTS[dialect])
    while True:
        # Texts may be longer than the csv module allows; its limit is one for the whole process, so it is restored.
        before = csv.field_size_limit(LONGEST_LINE)
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise InputError(f"expected a row of a table in {lines.where}, but {error}; repair or remove it.") from None
        finally:
            csv.field_size_limit(before)
        if row is None:
            return
        yield row


def _open_table(dialect: str, path: Path, columns: Columns) -> tuple[Reader, Mark]:
    lines = Lines(path)
    header = next(table_rows(lines, dialect), None)
    if not header:
        raise InputError(f"expected a table of texts, but {path} is empty.")
    no_header = len(header) == COLA_COLUMNS and header[1] in ("0", "1")
    if dialect == "tsv" and columns.text is None and no_header:
        return partial(read_table, dialect, [COLA_COLUMNS - 1], [None]), START
    names = columns.choose(header, f"the header of {path}")
    tags = [header.index(name) if name in header else None for name in map(tag_column, names)]
    return partial(read_table, dialect, [header.index(name) for name in names], tags), lines.mark


READERS: dict[str, Callable[[Path, Columns], tuple[Reader, Mark]]] = {
    "tsv": partial(_open_table, "tsv"),
    "csv": partial(_open_table, "csv"),
    "jsonl": lambda _, columns: (partial(read_json_lines, columns), START),
    "lines": lambda *_: (read_lines, START),
    "paragraphs": lambda *_: (read_paragraphs, START),
}
"""For each format, a function from a file and the columns to read to a reader and the mark of the first example."""
SUFFIXES = {".tsv": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".txt": "lines", ".raw": "lines"}
"""The format of a file by the end of its name."""
