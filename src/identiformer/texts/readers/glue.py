"""Tasks that models can be trained for, of GLUE and in its layout or ERASER's: examples with labels."""

import hashlib
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from pathlib import Path

from identiformer.errors import CorpusWarning, InputError
from identiformer.options import check_limit
from identiformer.texts.example import Example, update_hash
from identiformer.texts.readers.evidence import read_eraser
from identiformer.texts.readers.formats import example_of_row, table_rows
from identiformer.texts.readers.lines import Lines

GLUE_FILES = {"train": ("train.tsv",), "dev": ("dev.tsv",)}


def _labeled_rows(
    label: int, texts: tuple[int, ...], header: tuple[str, ...] | None, lines: Lines
) -> Iterator[tuple[Example, str, str]]:
    """The examples of a table: which columns hold the label and the texts, and their names if the file has a header."""
    rows = table_rows(lines, "tsv")
    columns = (label, *texts)
    if header is not None:
        present = next(rows, [])
        if not set(header) <= set(present):
            got = ", ".join(present)[:99] or "none"
            raise InputError(f"expected the header {', '.join(header)} in {lines.path}, got {got}.")
        columns = tuple(present.index(header[column]) for column in columns)  # there may be others, such as tags
    for row in rows:
        name = row[columns[0]] if columns[0] < len(row) else ""
        yield example_of_row(row, lines.where, columns[1:]), name, f"column {columns[0] + 1} of {lines.where}"


def _labeled_documents(lines: Lines) -> Iterator[tuple[Example, str, str]]:
    """The examples of a split in ERASER's layout."""
    return ((example, str(example.label), lines.where) for example in read_eraser(lines))


@dataclass(frozen=True)
class Task:
    """How to read a file of a task, its labels, and its files; splits that no choice is made on are read together."""

    read: Callable[[Lines], Iterator[tuple[Example, str, str]]]
    """Yields the examples of a file, each with the name of its label, and where that is."""
    labels: tuple[str, ...] = ("0", "1")
    files: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: GLUE_FILES)
    """The files of each split."""
    source: str = "GLUE"

    def examples(self, path: Path) -> Iterator[tuple[Example, int]]:
        """Yield the examples of a file, each with the number of its label."""
        for example, label, where in self.read(Lines(path)):
            if label not in self.labels:
                expected = f"{', '.join(self.labels[:-1])} or {self.labels[-1]}"
                raise InputError(f"expected the label {expected} in {where}, got {label[:40]!r}.")
            yield example, self.labels.index(label)


TASKS = {
    "MRPC": Task(partial(_labeled_rows, 0, (3, 4), ("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"))),
    "CoLA": Task(partial(_labeled_rows, 1, (3,), None)),
    "SST-2": Task(partial(_labeled_rows, 1, (0,), ("sentence", "label"))),
    "TREC": Task(
        partial(_labeled_rows, 1, (0,), ("sentence", "label")),
        tuple("012345"),
        {"train": ("train.tsv",), "dev": ("test.tsv",)},
        "the TREC question corpus",
    ),
    "movies": Task(_labeled_documents, ("NEG", "POS"), {"train": ("train.jsonl",), "dev": ("val.jsonl", "test.jsonl")}, "ERASER"),
}


@dataclass(frozen=True)
class Labeled:
    """Examples, the label of each, counted from 0, and the number of labels that the task has."""

    examples: tuple[Example, ...]
    labels: tuple[int, ...]
    classes: int = 2

    def __len__(self) -> int:
        return len(self.examples)

    @property
    def hash(self) -> str:
        """A hash of texts, labels and their order."""
        digest = hashlib.sha256()
        for example, label in zip(self.examples, self.labels, strict=True):
            update_hash(digest, example)
            digest.update(b"%d" % label)
        return f"sha256:{digest.hexdigest()}"


def read_labeled(data: str | os.PathLike[str], task: str, split: str, limit: int | None = None) -> Labeled:
    """Read the first `limit` examples of a split ("train" or "dev") of one of `TASKS` from the folder `data`."""
    if task not in TASKS:
        raise InputError(f"expected a task of {', '.join(TASKS)}, got {task!r}.")
    check_limit(limit)
    known = TASKS[task]
    paths = [Path(data).expanduser() / task / name for name in known.files[split]]
    for path in paths:
        if not path.is_file():
            raise InputError(
                f"expected the {split} examples of {task} in {path}, but there is no such file; get {task} from {known.source}."
            )
    rows = list(islice(chain.from_iterable(map(known.examples, paths)), limit))
    if not rows:
        raise InputError(f"expected at least one example of {task}, but {paths[0]} has none.")
    examples, labels = zip(*rows, strict=True)
    if split == "train" and len(rows) > 1 and len(set(labels)) == 1:
        warnings.warn(
            f"all {len(rows)} training examples of {task} have the label {known.labels[labels[0]]!r}, so there is nothing to "
            "learn from them; train on more, or shuffle the file.",
            CorpusWarning,
            2,
        )
    return Labeled(examples, labels, len(known.labels))
