"""Tasks that models can be trained for, of GLUE and in its layout or ERASER's: examples with labels."""

import hashlib
import os
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path

from identiformer.errors import CorpusWarning, InputError
from identiformer.options import check_limit
from identiformer.texts.example import Example, update_hash
from identiformer.texts.readers.eraser import read_eraser
from identiformer.texts.readers.formats import TableReader, table_rows
from identiformer.texts.readers.lines import Lines

GLUE_FILES = {"train": ("train.tsv",), "dev": ("dev.tsv",)}


@dataclass(frozen=True)
class GlueTask:
    """Which columns of a task's files hold the label and the texts, and their names if the files have a header."""

    label: int
    texts: tuple[int, ...]
    header: tuple[str, ...] | None = None
    labels: tuple[str, ...] = ("0", "1")
    files: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: GLUE_FILES)
    """The files of each split."""
    source: str = "GLUE"

    def read(self, path: Path) -> Iterator[tuple[Example, int]]:
        """Yield the examples of a file, each with the number of its label."""
        lines = Lines(path)
        rows = table_rows(lines, "tsv")
        columns = (self.label, *self.texts)
        if self.header is not None:
            header = next(rows, [])
            if not set(self.header) <= set(header):
                got = ", ".join(header)[:99] or "none"
                raise InputError(f"expected the header {', '.join(self.header)} in {path}, got {got}.")
            columns = tuple(header.index(self.header[column]) for column in columns)  # there may be others, such as tags
        reader = TableReader("tsv", columns[1:])
        for row in rows:
            label = row[columns[0]] if columns[0] < len(row) else ""
            where = f"column {columns[0] + 1} of line {lines.mark.lines} of {path}"
            yield reader.example(row, lines), _label(label, self.labels, where)


@dataclass(frozen=True)
class EraserTask:
    """The labels of a task in ERASER's layout, and its files; the splits that no choice is made on are read together."""

    labels: tuple[str, ...]
    files: Mapping[str, tuple[str, ...]]
    source: str = "ERASER"

    def read(self, path: Path) -> Iterator[tuple[Example, int]]:
        """Yield the examples of a file, each with the number of its label."""
        for example, mark in read_eraser(Lines(path)):
            yield example, _label(str(example.label), self.labels, f"line {mark.lines} of {path}")


def _label(label: str, labels: tuple[str, ...], where: str) -> int:
    if label not in labels:
        expected = f"{', '.join(labels[:-1])} or {labels[-1]}"
        raise InputError(f"expected the label {expected} in {where}, got {label[:40]!r}.")
    return labels.index(label)


TASKS: dict[str, GlueTask | EraserTask] = {
    "MRPC": GlueTask(0, (3, 4), ("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String")),
    "CoLA": GlueTask(1, (3,)),
    "SST-2": GlueTask(1, (0,), ("sentence", "label")),
    "TREC": GlueTask(
        1,
        (0,),
        ("sentence", "label"),
        tuple("012345"),
        {"train": ("train.tsv",), "dev": ("test.tsv",)},
        "the TREC question corpus",
    ),
    "movies": EraserTask(("NEG", "POS"), {"train": ("train.jsonl",), "dev": ("val.jsonl", "test.jsonl")}),
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
    rows = list(islice(chain.from_iterable(map(known.read, paths)), limit))
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
