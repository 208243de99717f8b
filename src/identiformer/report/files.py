"""The file that a report is written to, checked before anything takes long."""

import os
from contextlib import suppress
from pathlib import Path

from identiformer.errors import InputError
from identiformer.files import require_creatable, write_file

FORMATS = ("html", "png", "svg", "pdf")
"""What an attribution can be written as."""


def attribution_format(path: str | os.PathLike[str]) -> str:
    """The format of a file, by its extension."""
    extension = Path(path).suffix.removeprefix(".").lower()
    if extension not in FORMATS:
        raise InputError(f"expected a file that ends in .html, .png, .svg or .pdf, got {Path(path).name!r}; add one of these.")
    return extension


def report_target(path: str | os.PathLike[str]) -> Path:
    """The file that a report will replace, with symbolic links resolved; raises if it cannot be replaced by a file."""
    target = Path(os.path.realpath(path))
    if os.path.isdir(target):
        raise InputError(f"expected a file to write the report to, but {path} is a folder; add a name such as report.html.")
    # The finished file is renamed to the target, which would remove a device or a pipe.
    if os.path.lexists(target) and not os.path.isfile(target):
        raise InputError(
            f"expected a file to write the report to, but {path} is a device, a pipe or a link to itself; choose another name."
        )
    try:
        with suppress(FileNotFoundError):
            os.lstat(target)  # fails for a path through a file, and for a name that is too long
        require_creatable(target.parent)
    except OSError as error:
        raise _unwritable(path, error) from None
    return target


def write_report_file(content: bytes, path: str | os.PathLike[str]) -> Path:
    """Write a page or a picture, completely or not at all."""
    target = report_target(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_file(target, content)
    except OSError as error:
        raise _unwritable(path, error) from None
    return Path(path)


def _unwritable(path: str | os.PathLike[str], error: OSError) -> InputError:
    through_file = isinstance(error, FileExistsError | NotADirectoryError)
    reason = "part of the path is a file" if through_file else error.strerror
    return InputError(f"the report cannot be written to {path} ({reason}); choose another path.")
