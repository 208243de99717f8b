"""ERASER's layout: documents in a folder `docs`, and one file per split with human evidence (DeYoung et al. 2020)."""

import re
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from identiformer.errors import CorpusWarning, InputError
from identiformer.texts.example import Example, Span
from identiformer.texts.readers.lines import Lines, json_records

SPLIT = "val.jsonl"
"""The split of a folder; name another file, such as movies/test.jsonl, to read it instead."""
DOCUMENTS = "docs"


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
            spans = _evidence(record, lines.where)
            nonempty = [(document, start, stop) for document, start, stop in spans if start < stop]
            pieces, empty = pieces + len(spans), empty + len(spans) - len(nonempty)
            yield _example(record, nonempty, lines.path.parent / DOCUMENTS, lines.where)
    finally:
        if empty:
            warnings.warn(
                f"left out {empty} of {pieces} pieces of evidence in {lines.path}, which contain no word.", CorpusWarning, 2
            )


def _evidence(record: Any, where: str) -> list[tuple[str, int, int]]:
    """The document, first word, and word after the last of each piece of evidence."""
    try:
        pieces = [piece for group in record["evidences"] for piece in group]
        return [(str(piece["docid"]), int(piece["start_token"]), int(piece["end_token"])) for piece in pieces]
    except (KeyError, TypeError, ValueError):
        raise InputError(
            f"expected evidence as in ERASER in {where}: 'evidences', lists of objects with docid, start_token and end_token."
        ) from None


def _example(record: Mapping[str, Any], evidence: list[tuple[str, int, int]], folder: Path, where: str) -> Example:
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
