"""GLUE tasks that a model can be fine-tuned for: examples and the label of each."""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from identiformer.errors import InputError
from identiformer.options import check_limit
from identiformer.texts.example import Example, feed
from identiformer.texts.readers.lines import Lines
from identiformer.texts.readers.table import TableReader

LABELS = ("0", "1")


@dataclass(frozen=True)
class GlueTask:
    """Which columns of a task's files hold the label and the texts, and how their header names all where they have one."""

    label: int
    texts: tuple[int, ...]
    header: tuple[str, ...] | None = None


GLUE_TASKS = {
    "MRPC": GlueTask(0, (3, 4), ("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String")),
    "CoLA": GlueTask(1, (3,)),
}


@dataclass(frozen=True)
class Labeled:
    """Examples, and the label of each, 0 or 1."""

    examples: tuple[Example, ...]
    labels: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.examples)

    @property
    def hash(self) -> str:
        """A hash of texts, labels and their order."""
        digest = hashlib.sha256()
        for example, label in zip(self.examples, self.labels, strict=True):
            feed(digest, example)
            digest.update(b"%d" % label)
        return f"sha256:{digest.hexdigest()}"


def read_labeled(data: str | os.PathLike[str], task: str, part: str, limit: int | None = None) -> Labeled:
    """The examples of a task in the folder of GLUE, or the first so many of them.

    task: one of `GLUE_TASKS`. part: "train" or "dev".
    """
    if task not in GLUE_TASKS:
        raise InputError(f"expected a task of {', '.join(GLUE_TASKS)}, got {task!r}.")
    check_limit(limit)
    path = Path(data).expanduser() / task / f"{part}.tsv"
    if not path.is_file():
        raise InputError(f"expected the {part} examples of {task} in {path}, but there is no such file; get {task} from GLUE.")
    rows = list(islice(_read(path, GLUE_TASKS[task]), limit))
    if not rows:
        raise InputError(f"expected at least one example of {task}, but {path} has none.")
    examples, labels = zip(*rows, strict=True)
    return Labeled(examples, labels)


def _read(path: Path, task: GlueTask) -> Iterator[tuple[Example, int]]:
    lines = Lines(path)
    rows = TableReader("tsv", task.texts).rows(lines)
    label_place, places = task.label, task.texts
    if task.header is not None:
        header = next(rows, [])
        if not set(task.header) <= set(header):
            raise InputError(
                f"expected the header {', '.join(task.header)} in {path}, got {', '.join(header)[:200] or 'nothing'}."
            )
        # Other columns, such as tags, may stand among them.
        label_place, *places = (header.index(task.header[place]) for place in (task.label, *task.texts))
    reader = TableReader("tsv", tuple(places))
    for row in rows:
        label = row[label_place] if label_place < len(row) else ""
        if label not in LABELS:
            raise InputError(
                f"expected the label 0 or 1 in column {label_place + 1} of line {lines.mark.lines} of {path}, got {label[:40]!r}."
            )
        yield reader.example(row, lines), int(label)
