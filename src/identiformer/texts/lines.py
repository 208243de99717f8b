"""The lines of a file in UTF-8, one after the other, from any place where a line begins."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from identiformer.errors import InputError

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Mark(NamedTuple):
    """Where to read on: a byte of a file and the number of lines before it, or the number of an example."""

    place: int = 0
    lines: int = 0


class Lines:
    """An iterator over lines, line ends included, that knows where the next one begins."""

    def __init__(self, path: Path, start: Mark = Mark()) -> None:  # noqa: B008
        self.path = path
        self.mark = start

    def __iter__(self) -> Iterator[str]:
        with self.path.open("rb") as file:
            file.seek(self.mark.place)
            for line in file:
                self.mark = Mark(self.mark.place + len(line), self.mark.lines + 1)
                yield self._decode(line.removeprefix(BYTE_ORDER_MARK) if self.mark.lines == 1 else line)

    def _decode(self, line: bytes) -> str:
        try:
            return line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(
                f"expected text in UTF-8, but line {self.mark.lines} of {self.path} has the byte 0x{line[error.start]:02x} at "
                f"column {error.start + 1}; convert the file first (iconv -t UTF-8)."
            ) from None
