"""Verdicts on the claims of a paper, and the table that shows them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

COLUMNS = ("figure", "claim", "paper", "tolerance", "here", "verdict")
WORDS = ("claim", "here", "verdict")


@dataclass(frozen=True)
class Grade:
    """The verdict on one claim."""

    figure: str
    says: str
    paper: float | None
    tolerance: float | None
    ours: str
    verdict: str
    """holds, fails, "undecided" if the data cannot decide, or "another model" for a number that the paper gives for its own."""

    @property
    def cells(self) -> tuple[str, ...]:
        """One cell for each of COLUMNS."""
        paper, tolerance = ("" if number is None else f"{number:.4g}" for number in (self.paper, self.tolerance))
        return self.figure, self.says, paper, tolerance, self.ours, self.verdict


class GradeTable(NamedTuple):
    """Grades in rows."""

    header: list[str]
    rows: list[list[str]]
    words: list[int]
    """Columns of text, which are aligned to the left."""


def grade_table(grades: Iterable[Grade]) -> GradeTable:
    """The table of some grades; without the columns for numbers of the paper, if it gives none for these claims."""
    rows = [grade.cells for grade in grades]
    kept = [column for column in range(len(COLUMNS)) if any(row[column] for row in rows)]
    header = [COLUMNS[column] for column in kept]
    words = [index for index, name in enumerate(header) if name in WORDS]
    return GradeTable(header, [[row[column] for column in kept] for row in rows], words)


@dataclass(frozen=True)
class Comparison:
    """Our value of a number that the paper gives, or the reason why there is none."""

    value: float | str
    paper: float
    tolerance: float = 0.0
    sense: Literal["near", "above", "below"] = "near"
    """Whether the paper gives the number itself, or one that the value is above or below."""

    @property
    def holds(self) -> bool | None:
        if isinstance(self.value, str):
            return None
        excess = self.value - self.paper
        return {"near": abs(excess), "above": -excess, "below": excess}[self.sense] <= self.tolerance
