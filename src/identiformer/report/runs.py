"""The reports of a run over a corpus, and of a comparison of maps."""

import os
from pathlib import Path

from markupsafe import Markup

from identiformer.errors import RunError
from identiformer.page.html import json_element
from identiformer.page.summary import summarize_corpus
from identiformer.readings.comparison.blocks import comparison_blocks
from identiformer.readings.corpus.findings import findings
from identiformer.readings.corpus.run import counts, run_blocks
from identiformer.report.document import blocks_document
from identiformer.report.files import write_report_file
from identiformer.runs import Run

MEASURE = "faithfulness"


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
    if MEASURE not in run.results:
        raise RunError(f"expected a comparison in {run.path}, got none, because every example failed; see failures.jsonl.")
    result = run.results[MEASURE]
    measured = counts(run.settings.as_json(), run.results.get("texts"), run.failures)
    attributes = {name: value for name, value in result.attrs.items() if name not in ("unsupported", "counts")}
    title = f"Which map of {run.provenance['model']} should be trusted?"
    page = blocks_document(title, comparison_blocks(result, run.provenance["corpus"], measured), attributes)
    return write_report_file(page.encode(), run.path / "report.html" if path is None else path)
