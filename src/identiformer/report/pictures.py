"""Figures as images within a page."""

import base64

from matplotlib.figure import Figure

from identiformer.figures.formats import draw


def picture(figure: Figure | bytes) -> str:
    """A figure, or the content of an SVG file, as a data: address for an image within a page."""
    svg = draw(figure, "svg") if isinstance(figure, Figure) else figure
    return f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"
