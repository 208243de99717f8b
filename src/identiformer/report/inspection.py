"""The page of an inspection."""

import html
import json
import os
from pathlib import Path

from matplotlib.figure import Figure

from identiformer.figures import draw_attention_maps, draw_intervals, draw_layer_summary
from identiformer.page.certificate import rerun_of, verdict_of
from identiformer.page.html import data_of
from identiformer.page.summary import plain, summarize
from identiformer.readings import Certificate, Inspection
from identiformer.readings.inspection import HeadSummary, Received
from identiformer.report.page import (
    definitions,
    paragraphs,
    picture,
    provenance,
    render_interactive_page,
    render_page,
    table,
    texts,
    write_report_file,
)
from identiformer.trace import Trace


def write_report(inspection: Inspection, path: str | os.PathLike[str], trace: Trace | None = None) -> Path:
    """Write the page, whole or not at all; with the trace that was inspected, its maps can be looked through."""
    return write_report_file(render_report(inspection, trace).encode(), path)


def render_report(inspection: Inspection, trace: Trace | None = None) -> str:
    """The page as text."""
    attributes = inspection.result.attrs
    title = f"What may the attention of {attributes['model']} be taken to mean?"
    first = [*texts(attributes), *paragraphs(inspection.sentences())]
    interactive = trace is not None and "raw" in inspection.result
    rest = ["<h2>Layer by layer</h2>", _layer_table(inspection), picture(_summary_figure(inspection), "Summary per layer")]
    for head in inspection.misleading:
        rest.append(_head_section(inspection, head, interactive))
        rest += [_certificate(each) for each in inspection.certificates if (each.layer, each.head) == (head.layer, head.head)]
    rest += ["<h2>What was measured</h2>", _glossary(), "<h2>Where this came from</h2>", provenance(attributes)]
    if trace is None or not interactive:
        return render_page(title, [*first, *rest])
    return render_interactive_page(title, first, _interactive(inspection, trace), rest)


def _interactive(inspection: Inspection, trace: Trace) -> tuple[str, str]:
    """The maps of every head, and what is certain of the rows that were put to the test."""
    kind = json.loads(inspection.result.attrs["settings"])["kind"]
    verdicts = [verdict_of(each.result, rerun_of(each.alternative, each.output)) for each in inspection.certificates]
    summary = {**summarize(trace, kind=kind, result=inspection.result), "certificates": verdicts}
    if inspection.certified is not None:
        summary["numbers"]["certified"] = plain(inspection.certified.certified.values)
    if inspection.misleading:
        summary["first"] = {"layer": inspection.misleading[0].layer, "head": inspection.misleading[0].head}
    return data_of(summary, trace.stack(kind))


def _layer_table(inspection: Inspection) -> str:
    header = ("layer", "heads with a null space", "nullity", "null mass", "correlation")
    rows = (
        (
            str(row.layer),
            str(row.heads_with_null_space),
            f"{row.mean_nullity:.1f}",
            f"{row.mean_null_mass:.0%}",
            f"{row.mean_correlation:.2f}",
        )
        for row in inspection.layers
    )
    return table("Means over the heads of a layer", header, rows)


def _head_section(inspection: Inspection, head: HeadSummary, interactive: bool) -> str:
    title = f"<h2>Layer {head.layer}, head {head.head}</h2>"
    numbers = f"correlation {head.correlation:.2f}, null mass {head.null_mass:.0%}, nullity {head.nullity}"
    words = f"<p>Raw against effective attention: {numbers}.</p>"
    received = (
        "<table><caption>The tokens that receive most, as a mean over all queries</caption>"
        f"<tr><th>raw attention</th><td class=words>{_received(head.raw)}</td></tr>"
        f"<tr><th>effective attention</th><td class=words>{_received(head.effective)}</td></tr></table>"
    )
    if "raw" not in inspection.result:
        return title + words + received + "<p>The text is too long for maps; take rows of interest in Python.</p>"
    if interactive:
        return title + words + received + f'<p><a href="#layer={head.layer}&amp;head={head.head}">Look at its maps</a></p>'
    figure = Figure(figsize=(13, 5.2), layout="constrained")
    draw_attention_maps(inspection.result, head.layer, head.head, list(figure.subplots(1, 3, sharey=True)))
    return (
        title + words + received + picture(figure, f"Raw, effective and null attention of layer {head.layer}, head {head.head}")
    )


def _certificate(certificate: Certificate) -> str:
    words = "".join(paragraphs(certificate.sentences()))
    figure = Figure(figsize=(9, 6.5), layout="constrained")
    draw_intervals(certificate.result, certificate.query, certificate.alternative, figure.subplots())
    return "<h3>Put to the test</h3>" + words + picture(figure, "Intervals of the weights of one row")


def _received(tokens: tuple[Received, ...]) -> str:
    return ", ".join(f"<code>{html.escape(each.token)}</code> at {each.position} ({each.mean:+.3f})" for each in tokens)


def _summary_figure(inspection: Inspection) -> Figure:
    figure = Figure(figsize=(8, 3.8), layout="constrained")
    draw_layer_summary(inspection.result, figure.subplots())
    return figure


def _glossary() -> str:
    return definitions(
        {
            "raw attention A": "what the softmax gives, each row a distribution over keys",
            "effective A⊥": "the part of each row that the head's output can see; it may be negative and need not sum to one",
            "null A∥": "the rest: A = A⊥ + A∥, and A∥ leaves the output as it is",
            "nullity": "how many dimensions of a row the output cannot see: keys that it sees less the rank of their values",
            "null mass": "the share of a row's squared length that lies in A∥, as a mean over rows",
            "correlation": "Pearson's, of A with A⊥, over all entries that a query may see",
        }
    )
