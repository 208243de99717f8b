"""Files that are written whole or not at all."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from identiformer.errors import RunError

SCRATCH = ".writing-"


def write_whole(path: Path, content: bytes) -> None:
    """Write beside the place, flush to disk, then rename; who looks sees the old file or the new one, never a part."""
    with disk_full_is_an_error(path):
        scratch = path.with_name(f"{SCRATCH}{path.name}")
        try:
            with scratch.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            scratch.rename(path)
        except BaseException:
            with suppress(OSError):
                scratch.unlink()
            raise
        _flush_folder(path.parent)


def _flush_folder(folder: Path) -> None:
    """Without this a rename may be lost when the power fails."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def remove_scratch(folder: Path) -> None:
    """What was being written when a process was killed."""
    for path in folder.glob(f"{SCRATCH}*"):
        path.unlink()


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
