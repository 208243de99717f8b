"""The page as the output of a notebook cell."""

from typing import TYPE_CHECKING

from identiformer.errors import require_package
from identiformer.measures.indices import select_indices
from identiformer.page.html import PAGE, data_elements, render
from identiformer.page.summary import summarize
from identiformer.trace import Trace

if TYPE_CHECKING:
    from identiformer.notebook.widget import AttentionView


def show(
    trace: Trace, *, layer: int | None = None, head: int | None = None, query: int | None = None, kind: str | None = None
) -> "AttentionView":
    """Show the attention maps of every head of a trace in a notebook.

    Parameters
    ----------
    trace : Trace
        A text that was run through a model.
    layer, head : int, optional
        The head that is selected first. By default, the most informative one.
    query : int, optional
        The row that is selected first. By default, the most informative one.
    kind : str, optional
        Attention type of an encoder-decoder: encoder, decoder or cross.

    Returns
    -------
    AttentionView
        A widget. Its `view` is a dict of what is currently selected: layer, head, query, and the settings of the page.

    Examples
    --------
    >>> import identiformer as idf
    >>> trace = idf.load("minilm").trace("The minister wrote back to the islanders.")
    >>> widget = idf.show(trace, layer=2, head=3)
    >>> widget.view
    {'layer': 2, 'head': 3, 'query': 5}
    """
    require_package("anywidget", "notebook", "a notebook widget needs the package anywidget")
    from identiformer.notebook.widget import AttentionView

    stack = trace.stack(kind)
    heads = trace.layer(stack.layers[0].number if layer is None else layer, kind).heads  # raises if there is no such layer
    select_indices(head, heads, "head")
    select_indices(query, len(stack.queries), "query")
    summary = summarize(trace, kind=kind)
    selected = {"layer": layer, "head": head, "query": query}
    summary["first"] |= {name: value for name, value in selected.items() if value is not None}
    page = render(PAGE, title="identiformer", **data_elements(summary, stack))
    return AttentionView(page=page, view=summary["first"])
