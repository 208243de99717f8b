"""Reports on one text (attention or attribution) and on a corpus run; their HTML is in templates/."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import xarray as xr
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from identiformer.figures import (
    draw_attention_maps,
    draw_contribution_by_distance,
    draw_contribution_by_neighbors,
    draw_intervals,
    draw_layer_summary,
    draw_self_contribution,
    draw_token_attribution,
)
from identiformer.figures.formats import draw
from identiformer.figures.saving import draw_corpus_figures
from identiformer.models import Picture
from identiformer.page.answer import answer_panel
from identiformer.page.bounds import pack_bounds
from identiformer.page.html import data_elements, json_element, render
from identiformer.page.panels import attribution_panel, certificate_panel, check_corpus, patched_run_panel
from identiformer.page.reading import SHOWN_DIGITS
from identiformer.page.summary import TERMS, summarize, summarize_corpus
from identiformer.readings import AnswerSummary, AttributionSummary, Certificate, Inspection, Reading
from identiformer.readings.corpus import counts, findings, tables_of
from identiformer.readings.inspection import HeadSummary
from identiformer.report.files import attribution_format, write_report_file
from identiformer.report.pictures import picture
from identiformer.report.reading import answer_section, reading_section
from identiformer.runs import Run
from identiformer.trace import Trace
from identiformer.typed_json import finite_or_null


def _document(template: str, title: str, data: Mapping[str, Markup] | None, **values: Any) -> str:
    """Render a report; with data, embed the interactive page."""
    layout = "static" if data is None else "interactive"
    folder = "report/templates"
    return render(f"{folder}/{template}", layout=f"{folder}/{layout}.html", title=title, **(data or {}), **values)


def write_report(
    inspection: Inspection,
    path: str | os.PathLike[str],
    trace: Trace | None = None,
    reading: Reading | None = None,
    image: Picture | None = None,
    answer: AnswerSummary | None = None,
) -> Path:
    """Write the report of an inspection, which opens with the reading of the same text, and before it with an answer.

    With the trace that was inspected, it shows the maps of every head interactively; with the image of a vision model, also the
    weights of a row over its patches.
    """
    return write_report_file(render_report(inspection, trace, reading, image, answer).encode(), path)


def render_report(
    inspection: Inspection,
    trace: Trace | None = None,
    reading: Reading | None = None,
    image: Picture | None = None,
    answer: AnswerSummary | None = None,
) -> str:
    """The report of an inspection, as HTML."""
    result = inspection.result
    data = None if trace is None or "raw" not in result else _inspection_data(inspection, trace, reading, image, answer)
    layers = Figure(figsize=(8, 3.8), layout="constrained")
    draw_layer_summary(result, layers.subplots())
    return _document(
        "inspection.html",
        f"What may the attention of {result.attrs['model']} be taken to mean?"
        if answer is None
        else f"What did the answer of {result.attrs['model']} draw on?",
        data,
        inspection=inspection,
        reading=None if reading is None else reading_section(reading),
        answer=None if answer is None else answer_section(answer),
        layer_rows=[
            (
                row.layer,
                row.heads_with_null_space,
                f"{row.mean_nullity:.1f}",
                f"{row.mean_null_mass:.0%}",
                f"{row.mean_correlation:.2f}",
            )
            for row in inspection.layers
        ],
        layers_svg=picture(layers),
        heads=[_head(inspection, head, draw_maps=data is None and "raw" in result) for head in inspection.shown],
        terms=TERMS,
    )


def _inspection_data(
    inspection: Inspection, trace: Trace, reading: Reading | None, image: Picture | None, answer: AnswerSummary | None
) -> dict[str, Markup]:
    """The maps of every head, and the certificates of the rows that were tested."""
    kind = json.loads(inspection.result.attrs["settings"])["kind"]
    summary = summarize(trace, kind=kind, result=inspection.result, reading=reading, picture=image)
    for certificate in inspection.certificates:
        patched = patched_run_panel(certificate.alternative, certificate.total_variation, certificate.output)
        summary["certificates"].append(certificate_panel(certificate.result, patched))
    if inspection.certified is not None:
        summary["numbers"]["certified_rows"] = finite_or_null(inspection.certified.certified.values, SHOWN_DIGITS)
    if inspection.shown and reading is None:
        first = inspection.shown[0]
        summary["first"] |= {"layer": first.layer, "head": first.head}
        summary["why"] = ""
    if answer is not None:
        summary["answer"] = answer_panel(answer.answer, answer.answer.prompt, answer.as_json())
    bounds = pack_bounds(reading.result) if reading is not None and reading.certified else None
    return data_elements(summary, trace.stack(kind), bounds=bounds)


def _head(inspection: Inspection, head: HeadSummary, draw_maps: bool) -> dict[str, Any]:
    """What the report shows of one head."""
    maps = Figure(figsize=(13, 5.2), layout="constrained")
    if draw_maps:
        draw_attention_maps(inspection.result, head.layer, head.head, list(maps.subplots(1, 3, sharey=True)))
    return {
        "summary": head,
        "maps_svg": picture(maps) if draw_maps else None,
        "certificates": [
            {"sentences": certificate.sentences(), "svg": picture(_intervals(certificate))}
            for certificate in inspection.certificates
            if (certificate.layer, certificate.head) == (head.layer, head.head)
        ],
    }


def _intervals(certificate: Certificate) -> Figure:
    figure = Figure(figsize=(9, 6.5), layout="constrained")
    draw_intervals(certificate.result, certificate.query, certificate.alternative, figure.subplots())
    return figure


def write_attribution(
    summary: AttributionSummary, path: str | os.PathLike[str], trace: Trace | None = None, corpus: xr.Dataset | None = None
) -> Path:
    """Write the report of an attribution (.html), or the picture of the selected token (.png, .svg, .pdf).

    With the trace of the same text, the report shows every token, and the attention of every head, interactively. With `corpus`,
    the `run["token_attribution"]` of the same model, it shows the corpus medians next to the self-contributions.
    """
    extension = attribution_format(path)
    if extension != "html":
        return write_report_file(draw(_token_figure(summary), extension), path)
    result = summary.result
    if corpus is not None:
        check_corpus(corpus, result.attrs["revision"])
    tokens = Figure(figsize=(13, 4), layout="constrained")
    left, middle, right = tokens.subplots(1, 3)
    draw_self_contribution(result, left)
    draw_contribution_by_neighbors(result, middle)
    draw_contribution_by_distance(result, ax=right)
    data = None
    if trace is not None:
        text = summarize(trace)
        text["first"] |= {"query": summary.position, "open": "attribution"}
        data = data_elements(text, trace.stack(), attribution_panel(result, corpus))
    page = _document(
        "attribution.html",
        f"Where do the hidden vectors of {summary.model} come from?",
        data,
        summary=summary,
        tokens_svg=picture(tokens),
        token_svg=picture(_token_figure(summary)),
        layer_rows=[
            (row.layer, f"{row.median_self_contribution:.1%}", f"{row.not_own_main:.0%}", f"{row.undecided:.0%}")
            for row in summary.layers
        ],
    )
    return write_report_file(page.encode(), path)


def _token_figure(summary: AttributionSummary) -> Figure:
    return _figure(draw_token_attribution(summary.result, summary.position))


def _figure(axes: Axes) -> Figure:
    figure = axes.figure
    assert isinstance(figure, Figure)
    return figure


def write_run_report(run: Run, path: str | os.PathLike[str] | None = None) -> Path:
    """Write the report of a finished run; by default as report.html into its folder."""
    sections = [
        {
            "table": table,
            "pictures": {
                name.replace("_", " "): picture(figure)
                for name, figure in draw_corpus_figures({table.measure: run.results[table.measure]})
            },
        }
        for table in tables_of(run.results)
    ]
    numbers = summarize_corpus(run.results)
    page = _document(
        "run.html",
        f"{run.provenance['model']} over {run.provenance['corpus']}",
        None if numbers is None else {"first": json_element("corpus", numbers), "rest": Markup()},
        findings=findings(run.results),
        counts=counts(run.settings.as_json(), run.results.get("texts"), run.failures),
        sections=sections,
        attributes=next((result.attrs for result in run.results.values()), run.provenance),  # no result if every example failed
    )
    return write_report_file(page.encode(), run.path / "report.html" if path is None else path)
