"""Corpora with evidence: ERASER's layout, tables of cues, and texts with a planted answer.

ERASER has documents in a folder `docs`, and one file per split with human evidence (DeYoung et al. 2020). A cue is a word that
decides another one in its sentence, as in paradigms of BLiMP and sentences of IOI. Where a planted answer comes from is known: a
cue in a longer text, repeated random words, or a needle.
"""

import random
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from identiformer.errors import CorpusWarning, InputError
from identiformer.texts.example import PASSAGE, Example, Span
from identiformer.texts.readers.formats import table_rows
from identiformer.texts.readers.lines import Lines, Source, json_records, numbered

SPLIT = "val.jsonl"
"""The split of a folder; name another file, such as movies/test.jsonl, to read it instead."""
DOCUMENTS = "docs"

PREFIX, WORD, CUE = COLUMNS = ("one_prefix_prefix", "one_prefix_word_good", "target")
"""What precedes the word, the word, and its cue, which is part of what precedes it."""
ABSENT = ("", "NA")

PLANTED = "planted:"
NUMBER = 100
"""Texts of a kind."""
REPEATED = 48
"""Words before they repeat: with their repetition, more tokens than most heads are wide."""
NAMES = ("Clara", "Peter", "Maria", "David", "Anna", "Robert", "Julia", "Martin", "Laura", "Simon")
SECRETS = ("silver", "garden", "window", "summer", "orange", "button", "castle", "pepper", "violet", "copper")
SENTENCES = [sentence.rstrip(".") + "." for sentence in PASSAGE.split(". ")]


def is_eraser(path: Path) -> bool:
    """Whether a folder, or a file of one split, has ERASER's layout."""
    folder = path if path.is_dir() else path.parent
    split = folder / SPLIT if path.is_dir() else path
    return split.suffix == ".jsonl" and split.is_file() and (folder / DOCUMENTS).is_dir()


def read_eraser(lines: Lines) -> Iterator[Example]:
    """The documents of one split, with their class and evidence; the query is left out, being the same for all of them.

    Evidence is counted in words of the document, which are separated by white space. Evidence without a word is left out, with
    a warning that counts it.
    """
    pieces = empty = 0
    try:
        for record in json_records(lines):
            spans = _pieces(record, lines.where)
            nonempty = [(document, start, stop) for document, start, stop in spans if start < stop]
            pieces, empty = pieces + len(spans), empty + len(spans) - len(nonempty)
            yield _annotated(record, nonempty, lines.path.parent / DOCUMENTS, lines.where)
    finally:
        if empty:
            warnings.warn(
                f"left out {empty} of {pieces} pieces of evidence in {lines.path}, which contain no word.", CorpusWarning, 2
            )


def _pieces(record: Any, where: str) -> list[tuple[str, int, int]]:
    """The document, first word, and word after the last of each piece of evidence."""
    try:
        pieces = [piece for group in record["evidences"] for piece in group]
        return [(str(piece["docid"]), int(piece["start_token"]), int(piece["end_token"])) for piece in pieces]
    except (KeyError, TypeError, ValueError):
        raise InputError(
            f"expected evidence as in ERASER in {where}: 'evidences', lists of objects with docid, start_token and end_token."
        ) from None


def _annotated(record: Mapping[str, Any], evidence: list[tuple[str, int, int]], folder: Path, where: str) -> Example:
    names = {document for document, _, _ in evidence} or {str(record.get("annotation_id"))}
    name = min(names)
    if len(names) > 1 or Path(name).name != name:  # a name with a path in it could leave the folder
        raise InputError(f"expected evidence in one document of {folder} in {where}, got {', '.join(sorted(names))[:80]!r}.")
    text = "".join(Lines(folder / name)).strip()
    words = [match.span() for match in re.finditer(r"\S+", text)]
    outside = [(start, stop) for _, start, stop in evidence if start < 0 or stop > len(words)]
    if outside or not words:
        found = f"{len(words)} words of {name} in {where}, got {f'words {outside[0]}' if outside else 'no words'}"
        raise InputError(f"expected evidence among the {found}; repair or remove the line.")
    spans: tuple[Span, ...] = tuple((words[start][0], words[stop - 1][1]) for _, start, stop in evidence)
    label = record.get("classification")
    return Example(text, label=None if label is None else str(label), evidence=spans or None)


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
    cases = [_decided(dict(zip(header, row, strict=False)), lines.where) for row in rows]
    examples = [example for example in cases if example is not None]
    if len(examples) < len(cases):
        warnings.warn(
            f"left out {len(cases) - len(examples)} of {len(cases)} rows of {path}, which name no cue in their sentence.",
            CorpusWarning,
            2,
        )
    return examples


def _decided(row: Mapping[str, str], where: str) -> Example | None:
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


def in_longer_text(example: Example) -> Example:
    """The example after the embedded passage, so that the text has more tokens than a head is wide."""
    shift = len(PASSAGE) + 1
    return replace(
        example,
        text=f"{PASSAGE} {example.text}",
        tags=None,
        evidence=example.evidence and tuple((start + shift, stop + shift) for start, stop in example.evidence),
        answer=example.answer and (example.answer[0] + shift, example.answer[1] + shift),
    )


def repeated_words(number: int) -> Example:
    """Random words of the embedded passage that repeat in order: the source of the last word is its first occurrence.

    A language model that has seen "… violet copper … violet" predicts "copper" by attending from the second "violet" to the
    first "copper", as induction heads do (Olsson et al. 2022).
    """
    generator = random.Random(f"repeated words {number}")
    vocabulary = sorted({word.strip(".,;").lower() for word in PASSAGE.split()})
    words = generator.sample(vocabulary, REPEATED)
    repeats = generator.randrange(REPEATED // 2, REPEATED)
    text = " ".join((*words, *words[: repeats + 1]))
    source = len(" ".join(("", *words[:repeats], ""))) - 1
    length = len(words[repeats])
    return Example(text, evidence=((source, source + length),), answer=(len(text) - length, len(text)))


def needle(number: int) -> Example:
    """The embedded passage with a sentence planted in it, and that sentence again at the end: the source of its last word."""
    generator = random.Random(f"needle {number}")
    statement = f"The secret word of {generator.choice(NAMES)} is"
    secret = generator.choice(SECRETS)
    position = generator.randrange(1, len(SENTENCES))
    before = " ".join((*SENTENCES[:position], statement)) + " "
    text = " ".join((f"{before}{secret}.", *SENTENCES[position:], statement, secret))
    return Example(text, evidence=((len(before), len(before) + len(secret)),), answer=(len(text) - len(secret), len(text)))


KINDS = {"induction": repeated_words, "needle": needle}


def planted_source(name: str) -> Source:
    """Texts of one kind, or `planted:PATH` for the cues of a file or folder after the embedded passage."""
    kind = name.removeprefix(PLANTED)
    if kind in KINDS:
        return numbered(name, lambda: NUMBER, KINDS[kind])
    if not is_cues(Path(kind)):
        raise InputError(
            f"expected {', '.join(PLANTED + kind for kind in KINDS)}, or {PLANTED}PATH with a file or folder of cues, got "
            f"{name!r}."
        )
    cues = cue_source(Path(kind))
    return Source(name, lambda start: ((in_longer_text(example), mark) for example, mark in cues.read(start)))
