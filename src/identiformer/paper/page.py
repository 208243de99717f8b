"""What a reproduction found, as data, and the page that shows it next to the paper."""

import base64
import html
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from identiformer.files import write_whole
from identiformer.paper.computations.study import PAPERS_MODEL, Study
from identiformer.paper.computations.timing import Timed, durations
from identiformer.paper.recipes.declarations import HEADER, Grade, Recipe, Table
from identiformer.report.page import definitions, paragraphs, render_page, table

TITLE = "On Identifiability in Transformers, reproduced"


@dataclass(frozen=True)
class Finding:
    """One figure: its caption, its numbers, and the grades of the claims about it."""

    number: str
    heading: str
    caption: str
    table: Table | None
    grades: tuple[Grade, ...]


@dataclass(frozen=True)
class Findings:
    """All that the page shows."""

    opening: tuple[str, ...]
    figures: tuple[Finding, ...]
    missing: Mapping[str, str]
    times: tuple[Timed, ...]

    @property
    def grades(self) -> tuple[Grade, ...]:
        return tuple(grade for figure in self.figures for grade in figure.grades)

    @property
    def ending(self) -> str:
        """How long it took, and how long it would have taken with the paper's settings."""
        spent, papers = (sum(getattr(time, name) for time in self.times) for name in ("seconds", "papers"))
        return (
            f"The computations took {spent / 60:.0f} minutes. With the paper's settings they would take about "
            f"{papers / 3600:.0f} hours at the same rates."
        )


def gather(
    study: Study,
    figures: Sequence[tuple[Recipe, Sequence[Grade]]],
    missing: Mapping[str, str],
    used: Mapping[str, Collection[str]],
) -> Findings:
    """Collect what the page shows. used: the computations that each figure uses."""
    findings = tuple(
        Finding(recipe.number, recipe.heading, recipe.caption(study), recipe.table and recipe.table(study), tuple(grades))
        for recipe, grades in figures
    )
    verdicts = [grade.verdict for _, grades in figures for grade in grades]
    numbers = (
        f"Quoted numbers are the paper's for {PAPERS_MODEL}, and graded, because this is that model."
        if study.is_papers_model
        else f"Quoted numbers are the paper's for {PAPERS_MODEL}; this is another model, so they are shown without a grade."
    )
    opening = (
        f"Model {study.model_name}, {study.layers} layers; scale: {study.scale.name}.",
        f"Of the paper's claims, {verdicts.count('holds')} hold and {verdicts.count('fails')} fail. {numbers}",
    )
    return Findings(opening, findings, missing, tuple(durations(study, used)))


def write_page(findings: Findings, folder: Path) -> Path:
    """Write page.html with every figure and grade, grades.json, and findings.json with all that the page shows."""
    _write_json(folder / "grades.json", [asdict(grade) for grade in findings.grades])
    _write_json(folder / "findings.json", asdict(findings) | {"title": TITLE, "ending": findings.ending})
    body = [*paragraphs(findings.opening), _grade_table(findings.grades)]
    for figure in findings.figures:
        body += [
            f"<h2>{html.escape(figure.heading)}</h2>",
            _image(folder / "figures" / f"{figure.number}.svg", figure.heading),
            *paragraphs([figure.caption]),
            *([_number_table(figure.table)] if figure.table else []),
            *([_grade_table(figure.grades)] if figure.grades else []),
        ]
    if findings.missing:
        reasons = {f"Figure {number}": reason for number, reason in findings.missing.items()}
        body += ["<h2>Missing figures</h2>", definitions(reasons)]
    body += ["<h2>Time</h2>", *paragraphs([findings.ending]), _time_table(findings.times)]
    path = folder / "page.html"
    write_whole(path, render_page(TITLE, body).encode())
    return path


def _write_json(path: Path, content: Any) -> None:
    write_whole(path, json.dumps(content, indent=2, ensure_ascii=False).encode())


def _grade_table(grades: Sequence[Grade]) -> str:
    rows = [[html.escape(cell) for cell in grade.cells] for grade in grades]
    return table("claims of the paper", HEADER, rows, words=(1, 4, 5))


def _number_table(content: Table) -> str:
    rows = [[html.escape(cell) for cell in row] for row in content.rows]
    return table(html.escape(content.title), [html.escape(cell) for cell in content.header], rows)


def _time_table(times: Sequence[Timed]) -> str:
    cells = [
        (time.name.replace("_", " "), time.figures, f"{time.seconds:.0f} s", f"{time.papers:.0f} s", time.why) for time in times
    ]
    rows = [[html.escape(cell) for cell in row] for row in cells]
    header = ("computation", "figures", "here", "with the paper's settings", "which are")
    return table("computations", header, rows, words=(1, 4))


def _image(path: Path, description: str) -> str:
    encoded = base64.b64encode(path.read_bytes()).decode()
    return f'<p><img alt="{html.escape(description)}" src="data:image/svg+xml;base64,{encoded}"></p>'
