"""A dataset of the Hugging Face hub, by name."""

import importlib.util
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath
from typing import Any

from identiformer.errors import InputError, MissingPackageError
from identiformer.texts.example import Example
from identiformer.texts.readers.columns import Columns
from identiformer.texts.readers.lines import Mark
from identiformer.texts.readers.record import read_record

NAME = re.compile(r"[\w.-]+(/[\w.-]+)?(:[\w.-]+){0,2}")


def looks_like_a_dataset(name: str, file_suffixes: Collection[str]) -> bool:
    """Whether a name that is no file here can be that of a dataset: NAME, OWNER/NAME, with :SPLIT or :CONFIG:SPLIT after it."""
    return NAME.fullmatch(name) is not None and PurePath(name).suffix.lower() not in file_suffixes


@dataclass(frozen=True)
class HubDataset:
    """The examples of one split; the package `datasets` keeps them on disk, not in memory."""

    name: str
    columns: Columns

    def read(self, start: Mark | None = None) -> Iterator[tuple[Example, Mark]]:
        names = self.columns.among(self._rows.column_names, f"the dataset {self.name}")
        for number in range((start or Mark()).place, len(self._rows)):
            yield read_record(self._rows[number], names, f"row {number} of the dataset {self.name}"), Mark(number + 1)

    @cached_property
    def _rows(self) -> Any:
        if importlib.util.find_spec("datasets") is None:
            raise MissingPackageError(
                f"{self.name} is no file here, and a dataset of the hub needs a package; run: pip install 'identiformer[corpus]'"
            )
        import datasets  # pyright: ignore[reportMissingImports]

        name, *rest = self.name.split(":")
        split = rest[-1] if rest else "validation"
        try:
            return datasets.load_dataset(name, rest[0] if len(rest) == 2 else None, split=split)
        except Exception as error:  # the package raises whatever its loaders raise
            first_line = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise InputError(f"{self.name} is no file here and cannot be read as a dataset of the hub: {first_line}") from error
