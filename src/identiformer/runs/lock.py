"""One writer to a folder at a time."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from identiformer.errors import RunError

LOCK = "lock"


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Hold a folder for this process alone; the system lets go of it when the process ends, however it ends."""
    with (folder / LOCK).open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise RunError(f"another run is writing to {folder}; wait for it, or choose another folder.") from None
        yield
