"""A report as one HTML document: static, or around the interactive page."""

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from identiformer.figures.saving import draw
from identiformer.page.html import render
from identiformer.readings.blocks import Block
from identiformer.readings.blocks import Figure as FigureBlock

FOLDER = "report/templates"


def blocks_document(
    title: str,
    blocks: Iterable[Block],
    attributes: Mapping[str, Any],
    data: Mapping[str, Markup] | None = None,
    heading: Sequence[str] = (),
    terms: Mapping[str, str] | None = None,
) -> str:
    """Render the blocks of a reading, each figure as an image, and the attributes of its result.

    With data, embed the interactive page, under the sentences of `heading`. `terms` are defined at the end.
    """
    shown = []
    for block in blocks:
        if not isinstance(block, FigureBlock):
            shown.append(block)
        elif (drawn := block.draw()) is not None:
            shown.append({"title": block.title, "svg": picture(drawn)})
    layout = f"{FOLDER}/{'static' if data is None else 'interactive'}.html"
    values = {"shown": shown, "attributes": attributes, "heading": heading, "terms": terms}
    return render(f"{FOLDER}/blocks.html", layout=layout, title=title, **(data or {}), **values)


def picture(drawn: Figure | Axes | bytes) -> str:
    """A figure, that of axes, or the content of an SVG file, as a data: address for an image within a page."""
    svg = drawn if isinstance(drawn, bytes) else draw(drawn, "svg")
    return f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"
