"""Files of a run: a full disk stops it with a sentence, and loses nothing."""

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from identiformer import files
from identiformer.errors import RunError


def write_whole(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    with disk_full_is_an_error(path):
        files.write_whole(path, content)


@contextmanager
def disk_full_is_an_error(
    path: Path, then: str = "all finished shards are kept, so make room and go on with --resume"
) -> Iterator[None]:
    """Stop with a sentence when there is no room left, which then says what is kept and what to do."""
    try:
        yield
    except Exception as error:
        if not _disk_is_full(error):
            raise
        raise RunError(f"the disk is full: {path} could not be written; {then}.") from error


def _disk_is_full(error: Exception) -> bool:
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    # The writers of safetensors and of torch raise errors of their own.
    return bool(re.search(r"os error (28|122)\b|inline_container.*unexpected pos", str(error)))
