"""The widget that holds the page. Importing this module needs anywidget."""

from importlib.resources import files

import anywidget
import traitlets


class AttentionView(anywidget.AnyWidget):
    """The attention maps of a trace; `view` is what is currently selected: layer, head, query and settings of the page."""

    _esm = files("identiformer.notebook").joinpath("widget.js").read_text(encoding="utf-8")
    page = traitlets.Unicode().tag(sync=True)
    view = traitlets.Dict().tag(sync=True)
