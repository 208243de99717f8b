"""The page of a comparison: which map predicts what on this model and corpus."""

import os
from pathlib import Path

from identiformer.errors import RunError
from identiformer.figures.saving import draw_corpus_figures
from identiformer.measures.faithfulness import YARDSTICKS
from identiformer.page.html import render
from identiformer.readings.comparison import Comparison
from identiformer.readings.corpus import counts
from identiformer.report.files import write_report_file
from identiformer.report.pictures import picture
from identiformer.runs import Run

MEASURE = "faithfulness"
CAPTIONS = {
    "comparison": "Score of each map on each yardstick, mean over layers, with its 95% interval over examples. The dotted line "
    "is raw attention.",
    "comparison_by_layer": "The same layer by layer, for raw attention and the maps that score highest.",
    "comparison_of_explanations": "Score of each explanation of the output, with its 95% interval over examples.",
}


def write_comparison(run: Run, path: str | os.PathLike[str] | None = None) -> Path:
    """Write the page of a comparison; by default as report.html into its folder."""
    if MEASURE not in run.results:
        raise RunError(f"expected a comparison in {run.path}, got none, because every example failed; see failures.jsonl.")
    result = run.results[MEASURE]
    comparison = Comparison(result, run.provenance["corpus"])
    names = (*result["yardstick"].values, *result["explanation_yardstick"].values)
    page = render(
        "report/templates/comparison.html",
        layout="report/templates/static.html",
        title=f"Which map of {run.provenance['model']} should be trusted?",
        overview=" ".join(comparison.overview()),
        winners=[winner.sentence() for winner in comparison.winners],
        caveats=comparison.caveats(),
        counts=counts(run.settings.as_json(), run.results.get("texts"), run.failures),
        tables=comparison.tables(),
        signed=comparison.signed_table(),
        pictures=[(CAPTIONS[name], picture(figure)) for name, figure in draw_corpus_figures({MEASURE: result})],
        questions=[(YARDSTICKS[str(name)].title, YARDSTICKS[str(name)].question, YARDSTICKS[str(name)].paper) for name in names],
        attributes={name: value for name, value in result.attrs.items() if name not in ("unsupported", "counts")},
    )
    return write_report_file(page.encode(), run.path / "report.html" if path is None else path)
