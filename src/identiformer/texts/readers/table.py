"""Tables with a header: tab-separated without quoting, as GLUE has them, or comma-separated with it."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from identiformer.errors import InputError
from identiformer.texts.example import Example, read_example
from identiformer.texts.readers.columns import Columns, tag_column
from identiformer.texts.readers.lines import LONGEST_LINE, Lines, Mark

# A quotation mark in a tab-separated corpus is a character of the text: read as a quote, it would swallow tabs and whole lines.
DIALECTS = {
    "tsv": {"delimiter": "\t", "quoting": csv.QUOTE_NONE},
    "csv": {"delimiter": ",", "quoting": csv.QUOTE_MINIMAL, "strict": True},
}
COLA_COLUMNS = 4  # source, label, the author's mark, sentence; CoLA alone has no header


@dataclass(frozen=True)
class TableReader:
    """Examples from given places of every row."""

    dialect: str
    places: tuple[int, ...]
    tag_places: tuple[int | None, ...] = (None, None)
    """Of the tags of each text, where the table has them."""

    def examples(self, lines: Lines) -> Iterator[tuple[Example, Mark]]:
        for row in self.rows(lines):
            yield self.example(row, lines), lines.mark

    def rows(self, lines: Lines) -> Iterator[list[str]]:
        """The columns of each line."""
        reader = csv.reader(lines, **DIALECTS[self.dialect])
        while True:
            # Long texts are texts; but the limit belongs to the whole process, so others find it as it was.
            before = csv.field_size_limit(LONGEST_LINE)
            try:
                row = next(reader, None)
            except csv.Error as error:
                raise InputError(
                    f"expected a row of a table in line {lines.mark.lines} of {lines.path}, but {error}; repair or remove it."
                ) from None
            finally:
                csv.field_size_limit(before)
            if row is None:
                return
            yield row

    def example(self, row: list[str], lines: Lines) -> Example:
        """The texts of the row that was read last, and their tags."""
        where = f"line {lines.mark.lines} of {lines.path}"
        cells = {place: cell.strip() for place, cell in enumerate(row)}
        texts = [cells.get(place, "") for place in self.places]
        if not all(texts):
            raise InputError(f"expected {len(texts)} text(s) in {where}, got {len(row)} columns, a text among them empty.")
        return read_example(texts, [None if place is None else cells.get(place, "") for place in self.tag_places], where)


def open_table(path: Path, dialect: str, columns: Columns) -> tuple[TableReader, Mark]:
    """A reader for a table, and where its examples begin."""
    lines = Lines(path)
    header = next(TableReader(dialect, ()).rows(lines), None)
    if not header:
        raise InputError(f"expected a table of texts, but {path} is empty.")
    no_header = len(header) == COLA_COLUMNS and header[1] in ("0", "1")
    if dialect == "tsv" and columns.text is None and no_header:
        return TableReader(dialect, (COLA_COLUMNS - 1,)), Mark()
    names = columns.among(header, f"the header of {path}")
    tags = tuple(header.index(name) if name in header else None for name in map(tag_column, names))
    return TableReader(dialect, tuple(header.index(name) for name in names), tags), lines.mark
