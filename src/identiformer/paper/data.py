"""The data of the paper, as it stands in a folder of GLUE."""

from dataclasses import dataclass
from pathlib import Path

from identiformer.errors import InputError

FILES = {
    "MRPC": "MRPC/dev.tsv",
    "MRPC train": "MRPC/train.tsv",
    "CoLA": "CoLA/dev.tsv",
    "CoLA train": "CoLA/train.tsv",
    "MNLI": "MNLI/dev_matched.tsv",
    "wiki": "wiki/wiki.test.raw",
}
"""What the figures are made from, by the name that recipes use."""
LONGEST = 128
"""Tokens to which the paper cuts its texts."""


@dataclass(frozen=True)
class Data:
    """The files that are there."""

    folder: Path
    files: dict[str, Path]

    def missing(self, needed: tuple[str, ...]) -> tuple[str, ...]:
        """Of the parts that are needed, those that are not there."""
        return tuple(FILES[part] for part in needed if part not in self.files)


def find_data(folder: Path) -> Data:
    """Look what is there; nothing at all is an error."""
    files = {part: folder / name for part, name in FILES.items() if (folder / name).is_file()}
    if not files:
        raise InputError(f"expected some of {', '.join(FILES.values())} in {folder}, but there is none; give a folder of GLUE.")
    return Data(folder, files)
