"""The page, or the picture, of where a text's hidden vectors came from."""

import html
import os
from pathlib import Path

import xarray as xr
from matplotlib.figure import Figure

from identiformer.errors import InputError
from identiformer.figures import (
    draw_contribution_by_distance,
    draw_contribution_by_neighbors,
    draw_self_contribution,
    draw_token_attribution,
)
from identiformer.page.attribution import check_corpus, origins_of
from identiformer.page.html import data_of
from identiformer.page.summary import summarize
from identiformer.readings import AttributionSummary
from identiformer.readings.attribution import TokenMixing
from identiformer.report.page import (
    definitions,
    draw,
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

KINDS = ("html", "png", "svg", "pdf")


def write_attribution(
    summary: AttributionSummary, path: str | os.PathLike[str], trace: Trace | None = None, corpus: xr.Dataset | None = None
) -> Path:
    """Write a page (.html), or the picture of the chosen token alone (.png, .svg, .pdf), whole or not at all.

    trace: of the same text; with it every token, and the attention of every head, can be looked at in the page. corpus:
    `run["token_attribution"]` of the same model, whose medians then stand beside what a token keeps of itself.
    """
    kind = attribution_kind(path)
    content = _render(summary, trace, corpus).encode() if kind == "html" else draw(_token_figure(summary), kind)
    return write_report_file(content, path)


def attribution_kind(path: str | os.PathLike[str]) -> str:
    """What is to be written to a path, by its ending."""
    kind = Path(path).suffix.removeprefix(".").lower()
    if kind not in KINDS:
        raise InputError(f"expected a file that ends in .html, .png, .svg or .pdf, got {Path(path).name!r}; add one of these.")
    return kind


def _token_figure(summary: AttributionSummary) -> Figure:
    figure = draw_token_attribution(summary.result, summary.position).figure
    assert isinstance(figure, Figure)
    return figure


def _render(summary: AttributionSummary, trace: Trace | None, corpus: xr.Dataset | None) -> str:
    result = summary.result
    if corpus is not None:
        check_corpus(corpus, result.attrs["revision"])
    mixing = Figure(figsize=(13, 4), layout="constrained")
    places = mixing.subplots(1, 3)
    draw_self_contribution(result, places[0])
    draw_contribution_by_neighbors(result, places[1])
    draw_contribution_by_distance(result, ax=places[2])
    title = f"Where do the hidden vectors of {summary.model} come from?"
    first = [*texts(result.attrs), *paragraphs(summary.sentences())]
    rest = [
        "<h2>All tokens</h2>",
        picture(mixing, "Self-contribution per layer, and contribution by neighbor and by distance"),
        _layer_table(summary),
        f"<h2>The token {html.escape(summary.token)} at {summary.position}</h2>",
        picture(_token_figure(summary), "What one token's hidden vector is made of, layer by layer"),
        _token_table(summary),
        "<h2>What was measured</h2>",
        _glossary(),
        "<h2>Where this came from</h2>",
        provenance(result.attrs),
    ]
    if trace is None:
        return render_page(title, [*first, *rest])
    return render_interactive_page(title, first, _interactive(summary, trace, corpus), rest)


def _interactive(summary: AttributionSummary, trace: Trace, corpus: xr.Dataset | None) -> tuple[str, str]:
    """The maps of every head, and where every hidden vector came from; first those of the chosen token."""
    seen = summarize(trace)
    seen["first"] |= {"query": summary.position}
    return data_of(seen, trace.stack(), origins_of(summary.result, corpus))


def _layer_table(summary: AttributionSummary) -> str:
    header = ("layer", "self-contribution, median", "not own main contributor", "undecided")
    rows = (
        (str(row.layer), f"{row.median_self_contribution:.1%}", f"{row.not_own_main:.0%}", f"{row.undecided:.0%}")
        for row in summary.layers
    )
    return table("Over all tokens", header, rows)


def _token_table(summary: AttributionSummary) -> str:
    header = ("layer", "self-contribution", "largest contributions", "first is certain")
    rows = (
        (str(row.layer), f"{row.self_contribution:.1%}", _contributors(row), "yes" if row.certain else "no")
        for row in summary.of_token
    )
    return table("What its hidden vector is made of", header, rows, words=(2,))


def _contributors(row: TokenMixing) -> str:
    return ", ".join(f"<code>{html.escape(each.token)}</code> at {each.position} ({each.share:.1%})" for each in row.main)


def _glossary() -> str:
    return definitions(
        {
            "contribution": "how strongly a hidden vector moves with an input vector (the norm of its Jacobian), as a share",
            "self-contribution": "the share of a token in its own hidden vector",
            "main contributor": "the input token with the largest share; undecided where the error does not tell it from another",
            "neighbor": "tokens at this distance on either side; each group's line sums to one over layers",
            "distance": "position of the source less that of the target; a token itself is left out",
        }
    )
