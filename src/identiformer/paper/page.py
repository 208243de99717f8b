"""One page to hold beside the paper, the grades as a file, and all of it as data."""

import base64
import html
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from identiformer.files import write_whole
from identiformer.paper.claims import HEADER, Grade
from identiformer.paper.computations.timing import Timed
from identiformer.paper.findings import TITLE, Findings
from identiformer.paper.recipes.recipe import Table
from identiformer.report.page import definitions, paragraphs, render_page, table


def write_page(findings: Findings, folder: Path) -> Path:
    """page.html with every figure, its caption and its grades; grades.json; and findings.json, from which pages can be made."""
    _write_json(folder / "grades.json", [asdict(grade) for grade in findings.grades])
    _write_json(folder / "findings.json", findings.as_json())
    body = [*paragraphs(findings.opening), _grade_table(findings.grades)]
    for figure in findings.figures:
        body += [
            f"<h2>{html.escape(figure.heading)}</h2>",
            _image(folder / "figures" / f"{figure.number}.svg", figure.heading),
            *paragraphs([figure.caption]),
            *([_numbers(figure.table)] if figure.table else []),
            *([_grade_table(figure.grades)] if figure.grades else []),
        ]
    if findings.missing:
        why = {f"Figure {number}": reason for number, reason in findings.missing.items()}
        body += ["<h2>Figures that were left out</h2>", definitions(why)]
    body += ["<h2>Time</h2>", *paragraphs([findings.ending]), _time_table(findings.times)]
    path = folder / "page.html"
    write_whole(path, render_page(TITLE, body).encode())
    return path


def _write_json(path: Path, content: Any) -> None:
    write_whole(path, json.dumps(content, indent=2, ensure_ascii=False).encode())


def _grade_table(grades: Sequence[Grade]) -> str:
    rows = [[html.escape(cell) for cell in grade.cells] for grade in grades]
    return table("what the paper says", HEADER, rows, words=(1, 4, 5))


def _numbers(content: Table) -> str:
    rows = [[html.escape(cell) for cell in row] for row in content.rows]
    return table(html.escape(content.title), [html.escape(cell) for cell in content.header], rows)


def _time_table(times: Sequence[Timed]) -> str:
    rows = [
        (
            html.escape(time.name.replace("_", " ")),
            html.escape(time.figures),
            f"{time.seconds:.0f} s",
            f"{time.papers:.0f} s",
            html.escape(time.why),
        )
        for time in times
    ]
    return table(
        "each computation", ("computation", "figures", "here", "by the paper's settings", "which are"), rows, words=(1, 4)
    )


def _image(path: Path, description: str) -> str:
    encoded = base64.b64encode(path.read_bytes()).decode()
    return f'<p><img alt="{html.escape(description)}" src="data:image/svg+xml;base64,{encoded}"></p>'
