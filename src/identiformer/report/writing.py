"""Write reports and pictures to files."""

import base64
import io
import os
import warnings
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from identiformer.errors import InputError
from identiformer.files import write_file

FORMATS = ("html", "png", "svg", "pdf")
"""What an attribution can be written as."""
DPI = 200
"""Legible in print."""
# Matplotlib writes the time and random identifiers into pictures; the same figure should give the same bytes.
DATE_FIELDS = {"svg": "Date", "pdf": "CreationDate", "ps": "CreationDate"}
REPRODUCIBLE: Any = {"svg.hashsalt": "identiformer", "svg.fonttype": "none"}


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
    return target


def write_report_file(content: bytes, path: str | os.PathLike[str]) -> Path:
    """Write a page or a picture, completely or not at all."""
    target = report_target(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_file(target, content)
    except OSError as error:
        through_file = isinstance(error, FileExistsError | NotADirectoryError)
        reason = "part of the path is a file" if through_file else error.strerror
        raise InputError(f"the report cannot be written to {path} ({reason}); choose another path.") from None
    return Path(path)


def draw(figure: Figure, extension: str) -> bytes:
    """The figure in a file format; text stays text in SVG, so that a browser can show any script."""
    buffer = io.BytesIO()
    undated: dict[str, Any] = {DATE_FIELDS[extension]: None} if extension in DATE_FIELDS else {}
    with warnings.catch_warnings(), mpl.rc_context(REPRODUCIBLE):
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(buffer, format=extension, dpi=DPI, metadata=undated)
    return buffer.getvalue()


def picture(figure: Figure | bytes) -> str:
    """A figure, or the content of an SVG file, as a data: address for an image within a page."""
    svg = draw(figure, "svg") if isinstance(figure, Figure) else figure
    return f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"
