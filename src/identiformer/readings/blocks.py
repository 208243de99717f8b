"""Blocks, which readings consist of: sentences, tables and figures. The command line and reports show them, each in its way."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

Row = Mapping[str, str | float]
"""Cells by the name of their column: text, or a share."""
NUMBERS = re.compile(r"[-+–—±\d\s.,%\[\]]*")
"""A cell of numbers, with intervals and errors."""


class Bold(str):
    """A cell that stands out in its column, such as the highest score."""


@dataclass(frozen=True)
class Sentences:
    """One sentence per line, under a title or none."""

    title: str
    lines: Sequence[str]


@dataclass(frozen=True)
class Table:
    """Rows with the same columns; `notes` say what the columns mean. Lines of a cell are separate entries."""

    title: str
    rows: Sequence[Row]
    notes: tuple[str, ...] = ()

    @property
    def header(self) -> list[str]:
        """The names of the columns."""
        return list(self.rows[0]) if self.rows else []

    @property
    def cells(self) -> list[list[str]]:
        """The cells of every row as they are shown."""
        return [[cell_text(cell) for cell in row.values()] for row in self.rows]

    @property
    def words(self) -> list[int]:
        """The columns to align to the left: the first, and those of words."""
        return [number for number, column in enumerate(zip(*self.cells, strict=True)) if not (number and _numbers(column))]


@dataclass(frozen=True)
class Figure:
    """A picture under its caption; `draw`, which only what shows it calls, returns a matplotlib Figure, Axes, or None."""

    title: str
    draw: Callable[[], Any]


Block = Sentences | Table | Figure


def cell_text(cell: str | float) -> str:
    """A cell as it is printed: shares as percentages, without a minus before zero."""
    if isinstance(cell, str):
        return cell
    return "–" if isnan(cell) else f"{round(cell, 2) + 0:.0%}"


def _numbers(cells: Sequence[str]) -> bool:
    return all(NUMBERS.fullmatch(cell) for cell in cells)
