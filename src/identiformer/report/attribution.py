"""The report of a Hidden Token Attribution."""

import os
from pathlib import Path

import xarray as xr

from identiformer.figures import draw_token_attribution
from identiformer.figures.formats import draw
from identiformer.page.html import data_elements
from identiformer.page.panels import attribution_panel, check_corpus
from identiformer.page.summary import summarize
from identiformer.readings.attribution import TERMS, attribution_blocks
from identiformer.report.document import blocks_document
from identiformer.report.files import attribution_format, write_report_file
from identiformer.trace import Trace


def write_attribution(
    result: xr.Dataset,
    path: str | os.PathLike[str],
    token: int = 0,
    trace: Trace | None = None,
    corpus: xr.Dataset | None = None,
) -> Path:
    """Write the report of a `token_attribution` (.html), or the picture of one token (.png, .svg, .pdf).

    With the trace of the same text, the report shows every token, and the attention of every head, interactively. With `corpus`,
    the `run["token_attribution"]` of the same model, it shows the corpus medians next to the self-contributions.
    """
    extension = attribution_format(path)
    if extension != "html":
        return write_report_file(draw(draw_token_attribution(result, token), extension), path)
    if corpus is not None:
        check_corpus(corpus, result.attrs["revision"])
    data = None
    if trace is not None:
        text = summarize(trace)
        text["first"] |= {"query": token, "open": "attribution"}
        data = data_elements(text, trace.stack(), attribution_panel(result, corpus))
    title = f"Where do the hidden vectors of {result.attrs['model']} come from?"
    page = blocks_document(title, attribution_blocks(result, token), result.attrs, data, terms=TERMS)
    return write_report_file(page.encode(), path)
