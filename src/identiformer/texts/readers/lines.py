"""The lines of a file in UTF-8, one after the other, from any place where a line begins."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from identiformer.errors import InputError
from identiformer.files import require_regular

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
LONGEST_LINE = 2**26
"""Bytes of one line beyond which a file is not lines of text; to read on might take all memory."""


class Mark(NamedTuple):
    """Where to read on: a byte of a file and the number of lines before it, or the number of an example."""

    place: int = 0
    lines: int = 0


@contextmanager
def unreadable_is_an_error(path: Path) -> Iterator[None]:
    """Raise what the system says of a file that cannot be read as a sentence."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"expected to read the corpus {path}, but {error.strerror}; check the path and its permissions."
        ) from None


class Lines:
    """An iterator over lines, line ends included, that knows where the next one begins."""

    def __init__(self, path: Path, start: Mark = Mark()) -> None:  # noqa: B008
        self.path = path
        self.mark = start

    def __iter__(self) -> Iterator[str]:
        for line in self._bytes():
            self.mark = Mark(self.mark.place + len(line), self.mark.lines + 1)
            yield self._decode(line.removeprefix(BYTE_ORDER_MARK) if self.mark.lines == 1 else line)

    def _bytes(self) -> Iterator[bytes]:
        with unreadable_is_an_error(self.path):
            # Files of the system, such as those of /proc, have no size, and reading some of them never ends.
            if require_regular(self.path).st_size == 0:
                return
            with self.path.open("rb") as file:
                file.seek(self.mark.place)
                while line := file.readline(LONGEST_LINE + 1):
                    if len(line) > LONGEST_LINE:
                        raise InputError(
                            f"expected lines of at most {LONGEST_LINE} bytes, but line {self.mark.lines + 1} of {self.path} is "
                            f"longer; split it, or check that the file holds text."
                        )
                    yield line

    def _decode(self, line: bytes) -> str:
        try:
            return line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(
                f"expected text in UTF-8, but line {self.mark.lines} of {self.path} has the byte 0x{line[error.start]:02x} at "
                f"column {error.start + 1}; convert the file first (iconv -t UTF-8)."
            ) from None
