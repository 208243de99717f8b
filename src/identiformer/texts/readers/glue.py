"""GLUE tasks for which models can be fine-tuned: examples with labels."""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from identiformer.errors import InputError
from identiformer.options import check_limit
from identiformer.texts.example import Example, update_hash
from identiformer.texts.readers.formats import TableReader, table_rows
from identiformer.texts.readers.lines import Lines

LABELS = ("0", "1")


@dataclass(frozen=True)
class GlueTask:
    """Which columns of a task's files hold the label and the texts, and their names if the files have a header."""

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
            update_hash(digest, example)
            digest.update(b"%d" % label)
        return f"sha256:{digest.hexdigest()}"


def read_labeled(data: str | os.PathLike[str], task: str, split: str, limit: int | None = None) -> Labeled:
    """Read the first `limit` examples of a split ("train" or "dev") of one of `GLUE_TASKS` from the GLUE folder `data`."""
    if task not in GLUE_TASKS:
        raise InputError(f"expected a task of {', '.join(GLUE_TASKS)}, got {task!r}.")
    check_limit(limit)
    path = Path(data).expanduser() / task / f"{split}.tsv"
    if not path.is_file():
        raise InputError(f"expected the {split} examples of {task} in {path}, but there is no such file; get {task} from GLUE.")
    rows = list(islice(_read(path, GLUE_TASKS[task]), limit))
    if not rows:
        raise InputError(f"expected at least one example of {task}, but {path} has none.")
    examples, labels = zip(*rows, strict=True)
    return Labeled(examples, labels)


def _read(path: Path, task: GlueTask) -> Iterator[tuple[Example, int]]:
    lines = Lines(path)
    rows = table_rows(lines, "tsv")
    columns = (task.label, *task.texts)
    if task.header is not None:
        header = next(rows, [])
        if not set(task.header) <= set(header):
            raise InputError(f"expected the header {', '.join(task.header)} in {path}, got {', '.join(header)[:99] or 'none'}.")
        columns = tuple(header.index(task.header[column]) for column in columns)  # there may be others, such as tags
    reader = TableReader("tsv", columns[1:])
    for row in rows:
        label = row[columns[0]] if columns[0] < len(row) else ""
        if label not in LABELS:
            raise InputError(
                f"expected the label 0 or 1 in column {columns[0] + 1} of line {lines.mark.lines} of {path}, got {label[:40]!r}."
            )
        yield reader.example(row, lines), int(label)
