"""Files that are written whole or not at all, by one process at a time, and read only if they are what they should be."""

import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from identiformer.errors import RunError

SCRATCH = ".writing-"
"""How the name of a file or folder begins that is not finished."""
LOCK = "lock"


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


def require_regular(path: Path) -> os.stat_result:
    """Return what is known of a file; a folder, pipe or device, whose reading might never end, raises OSError."""
    try:
        about = path.stat()
    except ValueError as error:  # a NUL in the name
        raise OSError(errno.EINVAL, str(error), str(path)) from None
    if stat.S_ISDIR(about.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder", str(path))
    if not stat.S_ISREG(about.st_mode):
        raise OSError(errno.EINVAL, "it is a pipe, socket or device, not a file", str(path))
    return about


def read_whole(path: Path, most: int) -> bytes:
    """Read a regular file of at most so many bytes; anything else raises OSError before it is read."""
    size = require_regular(path).st_size
    if size > most:
        raise OSError(errno.EFBIG, f"it has {size} bytes, more than {most}", str(path))
    with path.open("rb") as file:
        return file.read(most)


def reserve(path: Path) -> None:
    """Take room on the disk for all of a file, or raise: a file that has a size may have no room yet."""
    if hasattr(os, "posix_fallocate"):
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)


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
    """Remove the temporary files and folders that a killed process has left in a folder; call it as the only writer."""
    for path in folder.glob(f"{SCRATCH}*"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Hold a folder for this process alone; the system lets go of it when the process ends, however it ends."""
    with (folder / LOCK).open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise RunError(f"another run is writing to {folder}; wait for it, or choose another folder.") from None
        yield
