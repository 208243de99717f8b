"""Folders that one process fills at a time, and that an interrupted command continues if its settings are the same."""

import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from identiformer.errors import ResultError, RunError, StoppedError
from identiformer.files import TEMPORARY, remove_leftovers, require_creatable, write_file
from identiformer.typed_json import read_json

LOCK, SETTINGS = "lock", "settings.json"
LONGEST_VALUE = 60
"""Characters of a setting that an error message quotes."""


@contextmanager
def says_how_to_continue(rest: Callable[[], str]) -> Iterator[None]:
    """Add what is finished, and how to continue, to the error of a run that stopped, and as a note to an interruption."""
    try:
        yield
    except StoppedError as error:
        raise StoppedError(error.reason, rest()) from error
    except (KeyboardInterrupt, SystemExit) as stop:
        stop.add_note(rest())
        raise


def same_command_continues(folder: Path) -> str:
    """What to say of a folder that the same command continues."""
    return f"finished work is kept in {folder}, so run the same command again to continue"


@contextmanager
def locked(folder: Path, *subfolders: str) -> Iterator[None]:
    """Create a folder, hold it for this process alone, and remove temporary files that a killed process left in it.

    The operating system releases the lock when the process ends, however it ends.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / LOCK, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise RunError(f"another run is writing to {folder}; wait for it, or choose another folder.") from None
    try:
        for path in (folder, *(folder / name for name in subfolders)):
            remove_leftovers(path)
        yield
    finally:
        lock.release()


def foreign_entries(folder: Path, expected: Collection[str] = ()) -> list[str]:
    """List what a folder holds besides the lock, temporary files and the expected names."""
    if os.path.isdir(folder):
        return sorted(name for name in os.listdir(folder) if name not in (LOCK, *expected) and not name.startswith(TEMPORARY))
    return ["a file"] if os.path.lexists(folder) else []


def require_same_settings(stored: Mapping[str, Any], settings: Mapping[str, Any], folder: Path) -> None:
    """Raise a RunError that names each difference unless a folder was made with these settings."""
    before, now = _flat(stored), _flat(settings)
    differences = [
        f"{name} is {_short(before.get(name))} there and {_short(now.get(name))} here"
        for name in dict.fromkeys((*before, *now))
        if before.get(name) != now.get(name)
    ]
    if differences:
        raise RunError(f"expected the settings of the run in {folder}, but {', '.join(differences)}; use another folder.")


def _flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Settings as JSON stores them, with nested names joined by dots."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {prefix + name: json.loads(json.dumps(value))}
    return flat


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 3]}..."


@dataclass(frozen=True)
class ResumableFolder:
    """A folder whose settings.json says what it is for; the same settings continue it."""

    path: Path
    section: str | None = None
    """The key of settings.json that holds the settings; None if they are the whole file."""
    subfolders: tuple[str, ...] = ()
    """Those in which files are written."""

    def stored(self) -> dict[str, Any] | None:
        """Return the settings of an earlier run; None if the folder holds none."""
        try:
            stored = read_json(self.path / SETTINGS, dict[str, Any], "use another folder")
        except ResultError:
            return None
        settings = stored if self.section is None else stored.get(self.section)
        return settings if isinstance(settings, dict) else None

    def check(self, settings: Mapping[str, Any] | None = None) -> None:
        """Raise a RunError unless the folder is free or holds an earlier run, of these settings if they are known yet."""
        stored = self.stored()
        if stored is None:
            if foreign := foreign_entries(self.path):
                raise RunError(f"expected a free folder or one to continue, but {self.path} holds {foreign[0]}; choose another.")
            require_creatable(self.path)
        elif settings is not None:
            require_same_settings(stored, settings, self.path)

    @contextmanager
    def started(self, settings: Mapping[str, Any]) -> Iterator[None]:
        """Hold the folder for this process, and write its settings unless it has them."""
        with locked(self.path, *self.subfolders):
            self.check(settings)
            if self.stored() is None:
                content = settings if self.section is None else {self.section: settings}
                write_file(self.path / SETTINGS, json.dumps(content, indent=2, ensure_ascii=False).encode())
            yield
