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
from identiformer.texts.readers.columns import Columns, example_of_record
from identiformer.texts.readers.lines import Mark

NAME = re.compile(r"[\w.-]+(/[\w.-]+)?(:[\w.-]+){0,2}")


def looks_like_a_dataset(name: str, file_suffixes: Collection[str]) -> bool:
    """Check whether a name has the form NAME or OWNER/NAME, optionally with :SPLIT or :CONFIG:SPLIT, and not that of a file."""
    return NAME.fullmatch(name) is not None and PurePath(name).suffix.lower() not in file_suffixes


@dataclass(frozen=True)
class HubDataset:
    """The examples of one split; the package `datasets` keeps them on disk, not in memory."""

    name: str
    columns: Columns

    def read(self, start: Mark | None = None) -> Iterator[tuple[Example, Mark]]:
        names = self.columns.choose(self._rows.column_names, f"the dataset {self.name}")
        for number in range((start or Mark()).offset, len(self._rows)):
            yield example_of_record(self._rows[number], names, f"row {number} of the dataset {self.name}"), Mark(number + 1)

    @cached_property
    def _rows(self) -> Any:
        if importlib.util.find_spec("datasets") is None:
            raise MissingPackageError(
                f"{self.name} is not a file here, and datasets of the hub need a package; run: pip install 'identiformer[corpus]'"
            )
        import datasets  # pyright: ignore[reportMissingImports]

        name, *rest = self.name.split(":")
        split = rest[-1] if rest else "validation"
        try:
            return datasets.load_dataset(name, rest[0] if len(rest) == 2 else None, split=split)
        except Exception as error:  # loaders of datasets raise exceptions of every kind
            first_line = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise InputError(
                f"{self.name} is not a file here and cannot be read as a dataset of the hub: {first_line}"
            ) from error
