"""Measurements as rows of a CSV file, and tables of them in Markdown."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Row = dict[str, Any]


def short_name(model: str) -> str:
    """The name of a model without its folders."""
    return Path(model).name


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write rows as they are measured, so that an interrupted study keeps what it has; the first has all columns."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = None
        for row in rows:
            if writer is None:
                writer = csv.DictWriter(file, list(row))
                writer.writeheader()
            writer.writerow(row)
            file.flush()


def read_rows(path: Path) -> list[Row]:
    """Read rows back; what looks like a number is one."""
    with path.open(encoding="utf-8", newline="") as file:
        return [{name: _number(text) for name, text in row.items()} for row in csv.DictReader(file)]


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def column(rows: Iterable[Row], name: str) -> np.ndarray:
    """The numbers of one column."""
    return np.array([row[name] for row in rows], np.float64)


def markdown(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    rule = f"|{'---|' * len(header)}"
    first, *rest = (f"| {' | '.join(cells)} |" for cells in (header, *lines))
    return "\n".join((first, rule, *rest))
