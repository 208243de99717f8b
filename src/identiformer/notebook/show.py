"""Show a trace in a notebook."""

from typing import TYPE_CHECKING

from identiformer.errors import InputError, MissingPackageError
from identiformer.page.html import data_of, render
from identiformer.page.summary import summarize
from identiformer.trace import Trace

if TYPE_CHECKING:
    from identiformer.notebook.widget import AttentionView


def show(
    trace: Trace, *, layer: int | None = None, head: int | None = None, query: int | None = None, kind: str | None = None
) -> "AttentionView":
    """The maps of every head of a trace, as a widget that a notebook shows.

    layer, head, query: what is shown first; without it the head whose raw attention misleads most. The widget's `view` tells
    what is being looked at.
    """
    try:
        from identiformer.notebook.widget import AttentionView
    except ImportError:
        raise MissingPackageError("a notebook's widget needs anywidget; pip install 'identiformer[notebook]'.") from None
    own = trace.layer(trace.stack(kind).layers[0].number if layer is None else layer, kind)  # refused where there is none
    for name, value, most in (("head", head, own.heads), ("query", query, len(trace.stack(kind).queries))):
        if value is not None and not 0 <= value < most:
            raise InputError(f"expected a {name} from 0 to {most - 1}, got {value}.")
    first = {name: value for name, value in (("layer", layer), ("head", head), ("query", query)) if value is not None}
    summary = summarize(trace, kind=kind)
    summary["first"] |= first
    data = data_of(summary, trace.stack(kind))
    return AttentionView(page=render("identiformer", *data), view=summary["first"])
