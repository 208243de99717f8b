"""What the paper says of a figure: a number that it quotes, or a shape that it describes, to be held against ours."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from identiformer.paper.computations.study import Study

Sense = Literal["near", "above", "below"]


@dataclass(frozen=True)
class Quoted:
    """A number of the paper, and how to find ours, in the same unit."""

    says: str
    value: float
    tolerance: float
    ours: Callable[[Study], float | str]
    """Or words that say why there is none."""
    sense: Sense = "near"
    """Whether the paper gives the number itself, or one that it is above or below."""

    def met_by(self, number: float) -> bool:
        """Whether a number is as the paper says, within the tolerance."""
        off = number - self.value
        return {"near": abs(off), "above": -off, "below": off}[self.sense] <= self.tolerance


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
    tolerance: float | None
    ours: str
    verdict: str
    """holds, fails, "not seen" where the data do not tell, or "another model" where a number is not of the paper's model."""

    @property
    def cells(self) -> tuple[str, str, str, str, str, str]:
        """As a line of a table under HEADER."""
        paper, tolerance = ("" if number is None else f"{number:.4g}" for number in (self.paper, self.tolerance))
        return self.figure, self.says, paper, tolerance, self.ours, self.verdict


HEADER = ("figure", "what is said", "paper", "tolerance", "here", "verdict")


def grade(figure: str, claim: Claim, study: Study) -> Grade:
    """Hold a claim against what was computed."""
    if isinstance(claim, Shape):
        holds, seen = claim.holds(study)
        return Grade(figure, claim.says, None, None, seen, {True: "holds", False: "fails", None: "not seen"}[holds])
    ours = claim.ours(study)
    if isinstance(ours, str):
        verdict = "not seen"
    elif study.is_the_papers:
        verdict = "holds" if claim.met_by(ours) else "fails"
    else:
        verdict = "another model"
    seen = ours if isinstance(ours, str) else f"{ours:.4g}"
    return Grade(figure, claim.says, claim.value, claim.tolerance, seen, verdict)


def falls(values: Any, slack: float = 0.0) -> tuple[bool, str]:
    """Whether values fall from each to the next, but for a slack."""
    numbers = np.asarray(values, dtype=float)
    return bool((np.diff(numbers) <= slack).all()), listed(numbers)


def listed(numbers: Any) -> str:
    """Numbers as a reader wants them: as percentages, one decimal."""
    return " ".join(f"{100 * number:.1f}" for number in np.asarray(numbers, dtype=float).ravel()) + " %"
