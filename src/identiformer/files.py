"""Read and write files safely: a file or folder is written whole or not at all, and only regular files are read."""

import errno
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from identiformer.errors import RunError

TEMPORARY = ".writing-"
"""Prefix of the names of unfinished files and folders; a killed process may leave some."""
DISK_FULL = re.compile(r"os error (28|122)\b|inline_container.*unexpected pos")
"""Messages of safetensors and torch, which raise exceptions of their own."""


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """Yield a temporary path at which to write a file or folder, and rename it to `path` once everything is on disk.

    Readers see the old content or the new one, never a part. If the body raises, `path` stays as it was.
    """
    temporary = temporary_path(path)
    try:
        yield temporary
        publish(temporary, path)
    finally:
        with suppress(OSError):
            remove(temporary)


def write_file(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    with atomic(path) as temporary:
        temporary.write_bytes(content)


def temporary_path(path: Path) -> Path:
    """Return an unused path in the same folder, so that a rename to `path` stays on one disk."""
    return path.with_name(f"{TEMPORARY}{secrets.token_hex(8)}")


def publish(temporary: Path, path: Path) -> None:
    """Flush a finished file or folder to disk, then rename it to `path`, replacing what is there."""
    flush(temporary)
    old = temporary_path(path)
    try:
        if path.is_dir():  # a rename replaces a file, but not a folder
            path.rename(old)
        temporary.replace(path)
    except BaseException:  # an interruption too
        if os.path.lexists(old) and not os.path.lexists(path):
            old.rename(path)
        raise
    _sync(path.parent)
    remove(old)


def flush(path: Path) -> None:
    """Flush a file, or a folder with everything in it, to disk."""
    if path.is_dir():
        for entry in path.iterdir():
            flush(entry)
    _sync(path)


def _sync(path: Path) -> None:
    """Flush the content of a file or the names in a folder: a rename that is not flushed may be lost in a power failure."""
    windows = os.name == "nt"
    if windows and path.is_dir():  # Windows flushes names by itself
        return
    descriptor = os.open(path, os.O_RDWR if windows else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove(path: Path) -> None:
    """Remove a file or a folder, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files and folders that a killed process left; call it while holding the lock of the folder."""
    for path in folder.glob(f"{TEMPORARY}*"):
        remove(path)


def require_regular(path: Path) -> os.stat_result:
    """Return the status of a regular file; raise OSError for a folder, pipe or device, which might never end."""
    try:
        status = path.stat()
    except ValueError as error:  # a NUL in the name
        raise OSError(errno.EINVAL, str(error), str(path)) from None
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder", str(path))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is a pipe, socket or device, not a file", str(path))
    return status


def require_creatable(folder: Path) -> None:
    """Raise OSError unless a folder exists, or it can be created, and files can be created in it."""
    with suppress(FileNotFoundError):
        os.lstat(folder)  # fails for a path through a file, and for a name that is too long
    nearest = next(path for path in (folder, *folder.absolute().parents) if os.path.lexists(path))
    if not nearest.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(nearest))
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(nearest))


def read_file(path: Path, largest: int) -> bytes:
    """Read a regular file of at most `largest` bytes; raise OSError for anything else before reading it."""
    size = require_regular(path).st_size
    if size > largest:
        raise OSError(errno.EFBIG, f"it has {size} bytes, more than {largest}", str(path))
    with path.open("rb") as file:
        return file.read(largest)


def reserve(path: Path) -> None:
    """Allocate disk space for all of a sparse file, or raise OSError if there is not enough."""
    if hasattr(os, "posix_fallocate"):
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)


@contextmanager
def disk_full_as_run_error(path: Path, advice: str) -> Iterator[None]:
    """Turn a full disk into a RunError that ends with advice: what is kept, and how to continue."""
    try:
        yield
    except Exception as error:
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT) if isinstance(error, OSError) else DISK_FULL.search(str(error))
        if not is_full:
            raise
        raise RunError(f"the disk is full: {path} could not be written; {advice}.") from error
