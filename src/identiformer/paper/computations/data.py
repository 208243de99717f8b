"""The data of the paper: a folder of GLUE, or GLUE on the hub."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from identiformer.errors import InputError
from identiformer.texts import read_corpus
from identiformer.texts.readers.hub_dataset import looks_like_a_dataset

FILES = {
    "MRPC": "MRPC/dev.tsv",
    "MRPC train": "MRPC/train.tsv",
    "CoLA": "CoLA/dev.tsv",
    "CoLA train": "CoLA/train.tsv",
    "MNLI": "MNLI/dev_matched.tsv",
    "wiki": "wiki/wiki.test.raw",
}
"""What the figures are made from, by the name that recipes use."""
SPLITS = {"MRPC": "mrpc:validation", "CoLA": "cola:validation", "MNLI": "mnli:validation_matched"}
"""The same on the hub, as far as it is there."""
LONGEST = 128
"""Tokens to which the paper cuts its texts."""


@dataclass(frozen=True)
class Data:
    """The parts that are there."""

    name: str
    files: dict[str, Path | str]

    def missing(self, needed: tuple[str, ...]) -> tuple[str, ...]:
        """Of the parts that are needed, those that are not there."""
        return tuple(FILES[part] for part in needed if part not in self.files)

    @property
    def hashes(self) -> dict[str, str]:
        """What tells the parts from others of the same name; of the hub, the name."""
        return {
            part: hashlib.sha256(file.read_bytes()).hexdigest() if isinstance(file, Path) else file
            for part, file in self.files.items()
        }


def find_data(data: str | os.PathLike[str]) -> Data:
    """Look what is there; nothing at all is an error. On the hub, OWNER/NAME, that shows when it is first read: so here."""
    name, folder = os.fspath(data), Path(data).expanduser()
    if not folder.exists() and "/" in name and looks_like_a_dataset(name, ()):
        found = Data(name, {part: f"{name}:{split}" for part, split in SPLITS.items()})
        for corpus in found.files.values():
            read_corpus(corpus, 1)
        return found
    files: dict[str, Path | str] = {part: folder / file for part, file in FILES.items() if (folder / file).is_file()}
    if not files:
        raise InputError(f"expected some of {', '.join(FILES.values())} in {folder}, but there is none; give a folder of GLUE.")
    return Data(str(folder), files)
