"""The page as a cell of a notebook."""

from importlib.resources import files

import anywidget
import traitlets


class AttentionView(anywidget.AnyWidget):
    """The maps of a trace; `view` says what is being looked at: layer, head, query …"""

    _esm = files("identiformer.notebook").joinpath("widget.js").read_text(encoding="utf-8")
    page = traitlets.Unicode().tag(sync=True)
    view = traitlets.Dict().tag(sync=True)
