"""What a reproduction shows, as plain data, and the HTML page of it."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from identiformer.files import write_file
from identiformer.page.html import render
from identiformer.paper.computations.study import PAPERS_MODEL, Study
from identiformer.paper.computations.timing import durations
from identiformer.paper.recipes.declarations import HEADER, Grade, Recipe
from identiformer.report.writing import picture

TITLE = "On Identifiability in Transformers, reproduced"


def gather(
    study: Study,
    graded: Sequence[tuple[Recipe, Sequence[Grade]]],
    missing: Mapping[str, str],
    used: Mapping[str, Collection[str]],
) -> dict[str, Any]:
    """All that the page shows. used: the computations that each figure uses."""
    verdicts = [grade.verdict for _, grades in graded for grade in grades]
    numbers = (
        f"Quoted numbers are the paper's for {PAPERS_MODEL}, and graded, because this is that model."
        if study.is_papers_model
        else f"Quoted numbers are the paper's for {PAPERS_MODEL}; this is another model, so they are shown without a grade."
    )
    times = durations(study, used)
    spent, papers = (sum(getattr(time, name) for time in times) for name in ("seconds", "papers"))
    return {
        "title": TITLE,
        "opening": [
            f"Model {study.model_name}, {study.layers} layers; scale: {study.scale.name}.",
            f"Of the paper's claims, {verdicts.count('holds')} hold and {verdicts.count('fails')} fail. {numbers}",
        ],
        "figures": [
            {
                "number": recipe.number,
                "heading": recipe.heading,
                "caption": recipe.caption(study),
                "table": recipe.table and asdict(recipe.table(study)),
                "grades": [asdict(grade) for grade in grades],
            }
            for recipe, grades in graded
        ],
        "missing": dict(missing),
        "times": [asdict(time) for time in times],
        "ending": f"The computations took {spent / 60:.0f} minutes. With the paper's settings they would take about "
        f"{papers / 3600:.0f} hours at the same rates.",
    }


def write_page(findings: Mapping[str, Any], folder: Path) -> Path:
    """Write page.html with every figure and grade, grades.json, and findings.json with all that the page shows."""
    figures = findings["figures"]
    _write_json(folder / "grades.json", [grade for figure in figures for grade in figure["grades"]])
    _write_json(folder / "findings.json", findings)
    numbers = [figure["number"] for figure in figures]
    pictures = {number: picture((folder / "figures" / f"{number}.svg").read_bytes()) for number in numbers}
    grades = {figure["number"]: [Grade(**grade).cells for grade in figure["grades"]] for figure in figures}
    times = [
        (time["name"].replace("_", " "), time["figures"], f"{time['seconds']:.0f} s", f"{time['papers']:.0f} s", time["why"])
        for time in findings["times"]
    ]
    page = render("paper/page.html", **findings, header=HEADER, pictures=pictures, grades=grades, durations=times)
    path = folder / "page.html"
    write_file(path, page.encode())
    return path


def _write_json(path: Path, content: Any) -> None:
    write_file(path, json.dumps(content, indent=2, ensure_ascii=False).encode())
