"""What the paper says of a figure: a number that it quotes, or a shape that it describes, to be held against ours."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from identiformer.paper.study import Study


@dataclass(frozen=True)
class Quoted:
    """A number of the paper, and how to find ours, in the same unit."""

    says: str
    value: float
    tolerance: float
    ours: Callable[[Study], float | str]
    """Or words that say why there is none."""


@dataclass(frozen=True)
class Shape:
    """What a curve is said to do; it holds or not, on any model."""

    says: str
    holds: Callable[[Study], tuple[bool | None, str]]
    """The verdict, None where the data do not tell, and the numbers that it rests on."""


Claim = Quoted | Shape


@dataclass(frozen=True)
class Grade:
    """A claim held against a run."""

    figure: str
    says: str
    paper: float | None
    ours: str
    verdict: str
    """holds, fails, "not seen" where the data do not tell, or "another model" where a number is not of the paper's model."""

    def as_json(self) -> dict[str, Any]:
        return {"figure": self.figure, "says": self.says, "paper": self.paper, "ours": self.ours, "verdict": self.verdict}


def grade(figure: str, claim: Claim, study: Study) -> Grade:
    """Hold a claim against what was computed."""
    if isinstance(claim, Shape):
        holds, seen = claim.holds(study)
        return Grade(figure, claim.says, None, seen, {True: "holds", False: "fails", None: "not seen"}[holds])
    ours = claim.ours(study)
    if isinstance(ours, str):
        return Grade(figure, claim.says, claim.value, ours, "not seen")
    verdict = ("holds" if abs(ours - claim.value) <= claim.tolerance else "fails") if study.is_the_papers else "another model"
    return Grade(figure, claim.says, claim.value, f"{ours:.4g}", verdict)


def falls(values: Any, slack: float = 0.0) -> tuple[bool, str]:
    """Whether values fall from each to the next, but for a slack."""
    numbers = np.asarray(values, dtype=float)
    return bool((np.diff(numbers) <= slack).all()), listed(numbers)


def listed(numbers: Any) -> str:
    """Numbers as a reader wants them: as percentages, one decimal."""
    return " ".join(f"{100 * number:.1f}" for number in np.asarray(numbers, dtype=float).ravel()) + " %"
