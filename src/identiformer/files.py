"""Files that are written whole or not at all."""

import os
from contextlib import suppress
from pathlib import Path

SCRATCH = ".writing-"
"""How the name of a file begins that is not finished."""


def write_whole(path: Path, content: bytes) -> None:
    """Write beside the place, flush to disk, then rename; who looks sees the old file or the new one, never a part."""
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
    flush(path.parent)


def flush(path: Path) -> None:
    """Bring a file, or the names in a folder, to the disk: a rename that is not flushed may be lost when the power fails."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def flush_folder(folder: Path) -> None:
    """Bring the files of a folder to the disk, before a name says that they are there."""
    for path in (*folder.iterdir(), folder):
        flush(path)


def remove_scratch(folder: Path) -> None:
    """What was being written when a process was killed."""
    for path in folder.glob(f"{SCRATCH}*"):
        path.unlink()
