"""The examples of a corpus and the lines of a UTF-8 file, read from the beginning or from a mark."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from identiformer.errors import InputError
from identiformer.files import require_regular
from identiformer.texts.example import Example
from identiformer.typed_json import parse_json

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
LONGEST_LINE = 2**26
"""Bytes; a file with a longer line is hardly text, and reading it might take all memory."""


class Mark(NamedTuple):
    """Where reading continues: a byte of a file and the number of lines before it, or the index of an example."""

    offset: int = 0
    lines: int = 0


START = Mark()


@dataclass(frozen=True)
class Source:
    """Yields the examples of a corpus in order, each with the mark at which the next one begins."""

    name: str
    read_from: Callable[[Mark], Iterator[tuple[Example, Mark]]]
    first: Mark = START

    def read(self, start: Mark | None = None) -> Iterator[tuple[Example, Mark]]:
        """The examples from a mark on; all of them without one."""
        return self.read_from(start or self.first)


def numbered(name: str, count: Callable[[], int], example: Callable[[int], Example]) -> Source:
    """Examples that are found by their number; how many there are is not asked before they are read."""

    def read_from(start: Mark) -> Iterator[tuple[Example, Mark]]:
        for number in range(start.offset, count()):
            yield example(number), Mark(number + 1)

    return Source(name, read_from)


@contextmanager
def unreadable_as_input_error(path: Path) -> Iterator[None]:
    """Turn the OSError of a file that cannot be read into an InputError."""
    try:
        yield
    except OSError as error:
        raise InputError(f"expected to read the corpus {path}, but {error.strerror}; check its path and permissions.") from None


class Lines:
    """Iterates over lines, line ends included; `mark` is where the next one begins."""

    def __init__(self, path: Path, start: Mark = START) -> None:
        self.path = path
        self.mark = start

    @property
    def where(self) -> str:
        """The line that was read last, for messages."""
        return f"line {self.mark.lines} of {self.path}"

    def __iter__(self) -> Iterator[str]:
        for line in self._bytes():
            self.mark = Mark(self.mark.offset + len(line), self.mark.lines + 1)
            yield self._decode(line.removeprefix(BYTE_ORDER_MARK) if self.mark.lines == 1 else line)

    def _bytes(self) -> Iterator[bytes]:
        with unreadable_as_input_error(self.path):
            # Files of the system, such as those of /proc, have no size, and reading some of them never ends.
            if require_regular(self.path).st_size == 0:
                return
            with self.path.open("rb") as file:
                file.seek(self.mark.offset)
                while line := file.readline(LONGEST_LINE + 1):
                    if len(line) > LONGEST_LINE:
                        raise InputError(
                            f"expected lines of at most {LONGEST_LINE} bytes, but line {self.mark.lines + 1} of {self.path} is "
                            f"longer; split it, or check that the file is text."
                        )
                    yield line

    def _decode(self, line: bytes) -> str:
        try:
            return line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(
                f"expected text in UTF-8, but {self.where} has the byte 0x{line[error.start]:02x} at "
                f"column {error.start + 1}; convert the file first (iconv -t UTF-8)."
            ) from None


def json_records(lines: Lines) -> Iterator[Any]:
    """The value of each line of JSON Lines that is not blank."""
    for line in lines:
        if not line.strip():
            continue
        try:
            record = parse_json(line)
        except ValueError as error:
            raise InputError(f"expected JSON in {lines.where}, but {error}; repair or remove the line.") from None
        yield record
