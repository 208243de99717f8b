"""Sentences with a word that another word decides, the cue: paradigms of BLiMP and sentences of IOI, as tables."""

import re
import warnings
from collections.abc import Mapping
from functools import cache
from itertools import chain, zip_longest
from pathlib import Path

from identiformer.errors import CorpusWarning, InputError
from identiformer.texts.example import Example
from identiformer.texts.readers.formats import table_rows
from identiformer.texts.readers.lines import Lines, Source, numbered

PREFIX, WORD, CUE = COLUMNS = ("one_prefix_prefix", "one_prefix_word_good", "target")
"""What precedes the word, the word, and its cue, which is part of what precedes it."""
ABSENT = ("", "NA")


def is_cues(path: Path) -> bool:
    """Whether a file is a table of cues, or a folder holds nothing but such tables."""
    files = sorted(path.glob("*.csv")) if path.is_dir() else [path]
    return bool(files) and all(_has_columns(file) for file in files)


def _has_columns(path: Path) -> bool:
    if path.suffix.lower() != ".csv" or not path.is_file():
        return False
    with path.open("rb") as file:
        header = file.readline(2**16)
    return all(column.encode() in header for column in COLUMNS)


def read_cues(path: Path) -> list[Example]:
    """The sentences of a table up to the word, with the cue as evidence and the word as answer.

    Rows without a cue in the sentence are left out, with a warning that counts them.
    """
    lines = Lines(path)
    rows = table_rows(lines, "csv")
    header = next(rows, [])
    if not set(COLUMNS) <= set(header):
        raise InputError(f"expected the columns {', '.join(COLUMNS)} in {path}, got {', '.join(header)[:99] or 'none'}.")
    cases = [_example(dict(zip(header, row, strict=False)), lines.where) for row in rows]
    examples = [example for example in cases if example is not None]
    if len(examples) < len(cases):
        warnings.warn(
            f"left out {len(cases) - len(examples)} of {len(cases)} rows of {path}, which name no cue in their sentence.",
            CorpusWarning,
            2,
        )
    return examples


def _example(row: Mapping[str, str], where: str) -> Example | None:
    prefix, word, cue = (row.get(column, "").strip() for column in COLUMNS)
    if not prefix or not word:
        raise InputError(f"expected a text in {PREFIX} and a word in {WORD} in {where}, got none; repair or remove the line.")
    matches = [] if cue in ABSENT else list(re.finditer(rf"(?<!\w){re.escape(cue)}(?!\w)", prefix))
    if not matches:
        return None
    start = len(prefix) + 1
    return Example(f"{prefix} {word}", evidence=(matches[-1].span(),), answer=(start, start + len(word)))


def cue_source(path: Path) -> Source:
    """The cues of one table, or of all tables of a folder in turn: the first row of every table, the second, and so on."""

    @cache
    def examples() -> list[Example]:
        tables = sorted(path.glob("*.csv")) if path.is_dir() else [path]
        rows = chain.from_iterable(zip_longest(*map(read_cues, tables)))
        return [example for example in rows if example is not None]

    return numbered(str(path), lambda: len(examples()), lambda number: examples()[number])
