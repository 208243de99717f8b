"""Figures as the content of files: the same figure yields the same bytes."""

import io
import warnings
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

DPI = 200
"""Legible in print."""
# Matplotlib writes the time and random identifiers into pictures; the same figure should give the same bytes.
DATE_FIELDS = {"svg": "Date", "pdf": "CreationDate", "ps": "CreationDate"}
REPRODUCIBLE: Any = {"svg.hashsalt": "identiformer", "svg.fonttype": "none"}


def draw(drawn: Figure | Axes, extension: str) -> bytes:
    """A figure, or that of axes, in a file format; text stays text in SVG, so that a browser can show any script."""
    figure: Any = drawn.figure
    buffer = io.BytesIO()
    undated: dict[str, Any] = {DATE_FIELDS[extension]: None} if extension in DATE_FIELDS else {}
    with warnings.catch_warnings(), mpl.rc_context(REPRODUCIBLE):
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(buffer, format=extension, dpi=DPI, metadata=undated)
    return buffer.getvalue()
