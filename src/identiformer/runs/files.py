"""Files of a run: a full disk stops it with a sentence, and loses nothing."""

import errno
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
def disk_full_is_an_error(path: Path) -> Iterator[None]:
    """Stop with a sentence when there is no room left."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise RunError(
            f"the disk is full: {path} could not be written; all finished shards are kept, so make room and go on with --resume."
        ) from error
