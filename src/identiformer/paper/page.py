"""One page to hold beside the paper, and the grades as a file."""

import base64
import html
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from identiformer.files import write_whole
from identiformer.paper.claims import Grade
from identiformer.paper.recipe import Recipe
from identiformer.paper.study import Study
from identiformer.report.page import definitions, paragraphs, render_page, table

TITLE = "On Identifiability in Transformers, computed anew"


def write_page(study: Study, drawn: Sequence[Recipe], missing: Mapping[str, str], grades: Sequence[Grade]) -> Path:
    """The page with every figure, its caption and its grades, and grades.json."""
    write_whole(
        study.folder / "grades.json", json.dumps([each.as_json() for each in grades], indent=2, ensure_ascii=False).encode()
    )
    body = [*paragraphs(_opening(study, grades)), _grade_table(grades)]
    for recipe in drawn:
        own = [grade for grade in grades if grade.figure == recipe.number]
        body += [
            f"<h2>Figure {recipe.number}. {html.escape(recipe.title)}</h2>",
            _image(study.folder / "figures" / f"{recipe.number}.svg", recipe.title),
            *paragraphs([recipe.caption(study)]),
            *([_grade_table(own)] if own else []),
        ]
    if missing:
        body += ["<h2>Figures that were left out</h2>", definitions({f"Figure {number}": why for number, why in missing.items()})]
    times = {name: f"{seconds:.0f} s" for name, seconds in study.seconds.items()}
    body += ["<h2>Time that each computation took</h2>", definitions(times)]
    path = study.folder / "page.html"
    write_whole(path, render_page(TITLE, body).encode())
    return path


def _opening(study: Study, grades: Sequence[Grade]) -> list[str]:
    held, failed = (sum(grade.verdict == verdict for grade in grades) for verdict in ("holds", "fails"))
    numbers = (
        "Quoted numbers are the paper's for bert-base-uncased, and graded, since this is that model."
        if study.is_the_papers
        else "Quoted numbers are the paper's for bert-base-uncased; this is another model, so they stand beside ours ungraded."
    )
    return [
        f"Model {study.model.name}, {study.layers} layers; scale: {study.scale.name}.",
        f"Of what the paper says, {held} hold and {failed} fail. {numbers}",
    ]


def _grade_table(grades: Sequence[Grade]) -> str:
    rows = [
        (html.escape(grade.figure), html.escape(grade.says), "" if grade.paper is None else f"{grade.paper:.4g}",
         html.escape(grade.ours), grade.verdict)
        for grade in grades
    ]  # fmt: skip
    return table("what the paper says", ("figure", "claim", "paper", "here", "verdict"), rows, words=(1, 3, 4))


def _image(path: Path, description: str) -> str:
    encoded = base64.b64encode(path.read_bytes()).decode()
    return f'<p><img alt="{html.escape(description)}" src="data:image/svg+xml;base64,{encoded}"></p>'
