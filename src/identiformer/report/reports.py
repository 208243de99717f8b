"""The reports on a text, on its attribution, on a run over a corpus, and on a comparison of maps: one HTML document each."""

import base64
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import xarray as xr
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from identiformer.errors import RunError
from identiformer.figures import draw_token_attribution
from identiformer.figures.saving import draw
from identiformer.models import Answer
from identiformer.page.bounds import pack_bounds
from identiformer.page.html import data_elements, json_element, render
from identiformer.page.panels import answer_panel, attribution_panel, certificate_panel, check_corpus, patched_run_panel
from identiformer.page.summary import TERMS, summarize, summarize_corpus
from identiformer.passage import Passage
from identiformer.readings import Reading, answer_as_json, answer_blocks, reading_blocks
from identiformer.readings.attribution import TERMS as ATTRIBUTION_TERMS
from identiformer.readings.attribution import attribution_blocks
from identiformer.readings.blocks import Block
from identiformer.readings.blocks import Figure as FigureBlock
from identiformer.readings.comparison import comparison_blocks
from identiformer.readings.corpus import counts, findings, run_blocks
from identiformer.report.files import attribution_format, write_report_file
from identiformer.runs import Run
from identiformer.trace import Trace

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
    page = blocks_document(title, attribution_blocks(result, token), result.attrs, data, terms=ATTRIBUTION_TERMS)
    return write_report_file(page.encode(), path)


def write_run_report(run: Run, path: str | os.PathLike[str] | None = None) -> Path:
    """Write the report of a finished run; by default as report.html into its folder."""
    numbers = summarize_corpus(run.results)
    data = None if numbers is None else {"first": json_element("corpus", numbers), "rest": Markup()}
    blocks = run_blocks(run.settings.as_json(), run.results, run.failures)
    attributes = next((result.attrs for result in run.results.values()), run.provenance)  # no result if every example failed
    title = f"{run.provenance['model']} over {run.provenance['corpus']}"
    page = blocks_document(title, blocks, attributes, data, heading=findings(run.results))
    return write_report_file(page.encode(), run.path / "report.html" if path is None else path)


def write_comparison(run: Run, path: str | os.PathLike[str] | None = None) -> Path:
    """Write the page of a comparison; by default as report.html into its folder."""
    if "faithfulness" not in run.results:
        raise RunError(f"expected a comparison in {run.path}, got none, because every example failed; see failures.jsonl.")
    result = run.results["faithfulness"]
    measured = counts(run.settings.as_json(), run.results.get("texts"), run.failures)
    attributes = {name: value for name, value in result.attrs.items() if name not in ("unsupported", "counts")}
    title = f"Which map of {run.provenance['model']} should be trusted?"
    page = blocks_document(title, comparison_blocks(result, run.provenance["corpus"], measured), attributes)
    return write_report_file(page.encode(), run.path / "report.html" if path is None else path)
