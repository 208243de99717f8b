"""The tables of the GLUE benchmark (MRPC, CoLA, MNLI and kin): tab-separated, never quoted."""

import csv
from pathlib import Path

from identiformer.errors import InputError
from identiformer.texts.example import Example

COLUMNS: tuple[tuple[str, str | None], ...] = (
    ("#1 String", "#2 String"),
    ("sentence1", "sentence2"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("sentence", None),
)
"""The names that tasks give to the columns with the first text and the second."""

COLA_COLUMNS = 4  # source, label, the author's mark, sentence; CoLA alone has no header


def read_glue(path: Path) -> list[Example]:
    """The examples of one GLUE file, such as MRPC/dev.tsv, in its order."""
    # A quotation mark is a character of the text: read as a quote, it would swallow tabs and whole lines.
    with path.open(encoding="utf-8-sig", newline="") as file:
        lines = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    if not lines:
        raise InputError(f"expected a table of texts, but {path} is empty.")
    for first, second in COLUMNS:
        if first in lines[0] and (second is None or second in lines[0]):
            places = [lines[0].index(name) for name in (first, second) if name is not None]
            return [_example(path, number, row, places) for number, row in enumerate(lines[1:], start=2)]
    if len(lines[0]) == COLA_COLUMNS and lines[0][1] in ("0", "1"):
        return [_example(path, number, row, [COLA_COLUMNS - 1]) for number, row in enumerate(lines, start=1)]
    raise InputError(
        f"expected a GLUE table with a header such as {COLUMNS[0][0]!r} and {COLUMNS[0][1]!r} or 'sentence1' and 'sentence2', or "
        f"CoLA's four columns without one, but {path} begins with {' | '.join(lines[0])[:80]!r}."
    )


def _example(path: Path, line: int, row: list[str], places: list[int]) -> Example:
    texts = [row[place].strip() if place < len(row) else "" for place in places]
    if not all(texts):
        raise InputError(
            f"expected {len(places)} text(s) in line {line} of {path}, got {len(row)} columns, a text among them empty."
        )
    return Example(*texts)
