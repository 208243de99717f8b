"""JSON Lines: an object a line."""

from collections.abc import Iterator
from dataclasses import dataclass

from identiformer.errors import InputError
from identiformer.texts.example import Example
from identiformer.texts.readers.columns import Columns
from identiformer.texts.readers.lines import Lines, Mark
from identiformer.texts.readers.record import read_record
from identiformer.typed_json import parse_json


@dataclass(frozen=True)
class JsonReader:
    """Examples from the strings under given keys, or under known ones."""

    columns: Columns

    def examples(self, lines: Lines) -> Iterator[tuple[Example, Mark]]:
        for line in lines:
            if line.strip():
                yield self._example(line, f"line {lines.mark.lines} of {lines.path}"), lines.mark

    def _example(self, line: str, where: str) -> Example:
        try:
            record = parse_json(line)
        except ValueError as error:
            raise InputError(f"expected JSON in {where}, but {error}; repair or remove the line.") from None
        if not isinstance(record, dict):
            raise InputError(f"expected a JSON object in {where}, got {line.strip()[:60]!r}.")
        return read_record(record, self.columns.among(list(record), where), where)
