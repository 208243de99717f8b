"""The page of a run over a corpus."""

import html
import os
from pathlib import Path

from matplotlib.figure import Figure

from identiformer.page.corpus import corpus_element
from identiformer.report.page import (
    paragraphs,
    picture,
    provenance,
    render_interactive_page,
    render_page,
    table,
    write_report_file,
)
from identiformer.runs import Run
from identiformer.runs.corpus_figures import DRAWN
from identiformer.runs.summary import counts, tables_of


def write_run_report(run: Run, path: str | os.PathLike[str] | None = None) -> Path:
    """Write the page of a finished run, whole or not at all; into its folder, as report.html, without another place."""
    return write_report_file(_render(run).encode(), run.path / "report.html" if path is None else path)


def _render(run: Run) -> str:
    title = f"{run.provenance['model']} over {run.provenance['corpus']}"
    first = paragraphs(counts(run.settings, run.results.get("texts"), run.failures))
    rest: list[str] = []
    for found in tables_of(run.results):
        rest.append(f"<h2>{found.title}</h2>")
        rest.append(table(html.escape(found.note), found.header, [[html.escape(cell) for cell in row] for row in found.rows]))
        for name, (measure, draw) in DRAWN.items():
            if measure == found.measure:
                figure = draw(run.results[measure]).figure
                assert isinstance(figure, Figure)
                rest.append(picture(figure, name.replace("_", " ")))
    about = next((result.attrs for result in run.results.values()), run.provenance)  # there is none where every example failed
    rest += ["<h2>Where this came from</h2>", provenance(about)]
    heads = corpus_element(run.results)
    return render_page(title, [*first, *rest]) if heads is None else render_interactive_page(title, first, (heads, ""), rest)
