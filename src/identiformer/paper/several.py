"""Several papers at once: a folder and a page for each, and one page for all."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from identiformer.errors import InputError
from identiformer.files import write_file
from identiformer.models import Model
from identiformer.page.html import render
from identiformer.paper.followups import PAPERS, find_paper
from identiformer.paper.recipes.declarations import grade_table
from identiformer.paper.reproduction import Reproduction, reproduce

SUMMARY = ("paper", "hold", "fail", "undecided", "another model", "missing figures")
VERDICTS = ("holds", "fails", "undecided", "another model")


def reproduce_papers(
    model: Model,
    data: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    of: Sequence[str] = tuple(PAPERS),
    **options: Any,
) -> dict[str, Reproduction]:
    """Compute, draw and grade the figures of several papers, each in its folder of `out`, and write one page for all.

    Parameters
    ----------
    model, data, out
        As in `reproduce`.
    of : sequence of str
        "brunner2020", "bhardwaj2021", "sun2021", "pascual2021"; all of them by default.
    **options
        Of `reproduce`: quick, workers, progress.

    Returns
    -------
    dict of str to Reproduction
        By paper. The page for all is out/page.html.

    Examples
    --------
    >>> import identiformer as idf
    >>> done = idf.reproduce_papers(idf.load("minilm"), "glue", "papers", quick=True)  # doctest: +SKIP
    """
    papers = [find_paper(key) for key in of]
    if not papers:
        raise InputError("expected at least one paper, got none.")
    folder = Path(out).expanduser()
    done = {paper.key: reproduce(model, data, folder / paper.key, of=paper.key, **options) for paper in papers}
    rows = [(paper.citation, *_counts(done[paper.key])) for paper in papers]
    sections = [
        {
            "title": paper.title,
            "citation": paper.citation,
            "page": f"{paper.key}/page.html",
            "claims": grade_table(done[paper.key].grades),
        }
        for paper in papers
    ]
    page = render(
        "paper/several.html", title="The paper and those that followed", summary_header=SUMMARY, rows=rows,
        sections=sections, opening=[f"Model {model.name}. Every claim is graded by a computation; each paper has a page."],
    )  # fmt: skip
    write_file(folder / "page.html", page.encode())
    return done


def _counts(done: Reproduction) -> tuple[str, ...]:
    verdicts = [grade.verdict for grade in done.grades]
    return (*(str(verdicts.count(verdict)) for verdict in VERDICTS), str(len(done.missing)))
