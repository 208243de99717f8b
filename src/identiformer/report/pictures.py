"""Figures as images within a page."""

import base64

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from identiformer.figures.formats import draw


def picture(drawn: Figure | Axes | bytes) -> str:
    """A figure, that of axes, or the content of an SVG file, as a data: address for an image within a page."""
    svg = drawn if isinstance(drawn, bytes) else draw(drawn, "svg")
    return f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"
