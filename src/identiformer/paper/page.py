"""What a reproduction found, as data, and the page that shows it next to the paper."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from identiformer.files import write_file
from identiformer.page.html import render
from identiformer.paper.computations.study import PAPERS_MODEL, Study
from identiformer.paper.computations.timing import Timed, durations
from identiformer.paper.recipes.declarations import HEADER, Grade, Recipe, Table
from identiformer.report.writing import picture

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
    files = {figure.number: folder / "figures" / f"{figure.number}.svg" for figure in findings.figures}
    pictures = {number: picture(file.read_bytes()) for number, file in files.items()}
    times = [
        (time.name.replace("_", " "), time.figures, f"{time.seconds:.0f} s", f"{time.papers:.0f} s", time.why)
        for time in findings.times
    ]
    page = render("paper/page.html", title=TITLE, findings=findings, header=HEADER, pictures=pictures, times=times)
    path = folder / "page.html"
    write_file(path, page.encode())
    return path


def _write_json(path: Path, content: Any) -> None:
    write_file(path, json.dumps(content, indent=2, ensure_ascii=False).encode())
