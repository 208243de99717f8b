"""All that a page tells, as plain data: what is written as HTML here, and as Markdown in the documentation."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from identiformer.paper.claims import Grade
from identiformer.paper.computations.study import PAPERS_MODEL, Study
from identiformer.paper.computations.timing import Timed, timed
from identiformer.paper.recipes.recipe import Recipe, Table

TITLE = "On Identifiability in Transformers, computed anew"


@dataclass(frozen=True)
class Finding:
    """One figure: what is said under it, and what the paper says of it."""

    number: str
    heading: str
    caption: str
    table: Table | None
    grades: tuple[Grade, ...]


@dataclass(frozen=True)
class Findings:
    """A whole reproduction."""

    opening: tuple[str, ...]
    figures: tuple[Finding, ...]
    missing: Mapping[str, str]
    times: tuple[Timed, ...]

    @property
    def grades(self) -> tuple[Grade, ...]:
        return tuple(grade for figure in self.figures for grade in figure.grades)

    @property
    def ending(self) -> str:
        """How long it took, and how long it would have."""
        spent, papers = (sum(getattr(time, name) for time in self.times) for name in ("seconds", "papers"))
        return (
            f"The computations took {spent / 60:.0f} minutes. With the paper's own settings they would take about "
            f"{papers / 3600:.0f} hours at the same rates."
        )

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"title": TITLE, "ending": self.ending}


def gather(
    study: Study,
    drawn: Sequence[Recipe],
    missing: Mapping[str, str],
    grades: Sequence[Grade],
    rests: Mapping[str, Collection[str]],
) -> Findings:
    """What was found, in the order of the figures. rests: the computations that each figure rests on."""
    figures = [
        Finding(
            recipe.number,
            recipe.heading,
            recipe.caption(study),
            None if recipe.table is None else recipe.table(study),
            tuple(grade for grade in grades if grade.figure == recipe.number),
        )
        for recipe in drawn
    ]
    return Findings(tuple(_opening(study, grades)), tuple(figures), missing, tuple(timed(study, rests)))


def _opening(study: Study, grades: Sequence[Grade]) -> list[str]:
    held, failed = (sum(grade.verdict == verdict for grade in grades) for verdict in ("holds", "fails"))
    numbers = (
        f"Quoted numbers are the paper's for {PAPERS_MODEL}, and graded, since this is that model."
        if study.is_the_papers
        else f"Quoted numbers are the paper's for {PAPERS_MODEL}; this is another model, so they stand beside ours ungraded."
    )
    return [
        f"Model {study.model_name}, {study.layers} layers; scale: {study.scale.name}.",
        f"Of what is said to hold, {held} hold and {failed} fail. {numbers}",
    ]
