"""Figures as files and as images within a page: the same figure gives the same bytes."""

import base64
import io
import warnings
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

DPI = 200
"""Legible in print."""
# Matplotlib writes the time and random identifiers into pictures; the same figure should give the same bytes.
DATE_FIELDS = {"svg": "Date", "pdf": "CreationDate", "ps": "CreationDate"}
REPRODUCIBLE: Any = {"svg.hashsalt": "identiformer", "svg.fonttype": "none"}


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
