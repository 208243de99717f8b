"""The report on the attention of one text: its blocks below the interactive page."""

import os
from pathlib import Path

import xarray as xr
from markupsafe import Markup

from identiformer.models import Answer
from identiformer.page.answer import answer_panel
from identiformer.page.bounds import pack_bounds
from identiformer.page.html import data_elements
from identiformer.page.panels import certificate_panel, patched_run_panel
from identiformer.page.summary import TERMS, summarize
from identiformer.passage import Passage
from identiformer.readings import Reading, answer_as_json, answer_blocks, reading_blocks
from identiformer.report.document import blocks_document
from identiformer.report.files import write_report_file

DEFINED = (
    "certified", "contributing", "readable", "contribution", "own", "attention sink", "raw", "effective", "null", "nullity",
    "null_mass", "correlation",
)  # fmt: skip
"""The terms that a report defines."""
Written = tuple[Answer, xr.Dataset]
"""An answer of the model, and its `answer_attribution`."""


def write_report(
    reading: Reading, path: str | os.PathLike[str], passage: Passage | None = None, answer: Written | None = None
) -> Path:
    """Write the report of a reading, and before it of an answer.

    With the passage that was read, it shows the maps of every head interactively.
    """
    return write_report_file(render_report(reading, passage, answer).encode(), path)


def render_report(reading: Reading, passage: Passage | None = None, answer: Written | None = None) -> str:
    """The report of a reading, as HTML."""
    attributes = reading.result.attrs
    asked = "may the attention of {} be taken to mean" if answer is None else "did the answer of {} draw on"
    blocks = [*([] if answer is None else answer_blocks(*answer, reading)), *reading_blocks(reading)]
    data = None if passage is None else _interactive(reading, passage, answer)
    terms = {name.replace("_", " "): TERMS[name] for name in DEFINED}
    return blocks_document(f"What {asked.format(attributes['model'])}?", blocks, attributes, data, terms=terms)


def _interactive(reading: Reading, passage: Passage, answer: Written | None) -> dict[str, Markup]:
    """The maps of every head, and the certificates of the rows that were tested."""
    stack = passage.stack
    summary = summarize(passage.trace, kind=stack.kind, reading=reading, picture=passage.picture)
    for one in reading.certificates:
        patched = patched_run_panel(one.patched_alternative.item(), float(one.patched_total_variation), one)
        summary["certificates"].append(certificate_panel(one, patched))
    if answer is not None:
        written, attribution = answer
        summary["answer"] = answer_panel(written, written.prompt, answer_as_json(written, attribution, reading))
    return data_elements(summary, stack, bounds=pack_bounds(reading, len(stack.queries)) if reading.certified else None)
