"""How the figures of the paper and its claims about them are declared, and graded.

To add a figure, open the file of its topic in this folder (or add a file and list it in `__init__.py`) and write

    @recipe("44", "Title of the figure", data="MRPC", caption=caption)
    def draw_something(study): ...             # returns axes or a figure

    @claim("44", "what the paper says about it")
    def something_falls_with_depth(study): ...  # returns (whether it holds, the evidence), or a Comparison with a number

Several figures are declared alike by a mapping to the arguments of the functions: {"2a": "MRPC", "38": "CoLA"}. A list makes
several claims about one figure, and {} in a title or a sentence is replaced by an argument.

The papers that followed are declared in `paper/followups`, each with a `Paper` of its own.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from identiformer.paper.computations.study import Study

COLUMNS = ("figure", "claim", "paper", "tolerance", "here", "verdict")
WORDS = ("claim", "here", "verdict")
Numbers = str | Mapping[str, Any]
"""The number of a figure, or the arguments of its functions by the number of each figure."""
Outcome = tuple[bool | None, str]
"""Whether a claim holds, None if the data cannot decide, and the numbers that show it."""
Function = TypeVar("Function", bound=Callable[..., Any])


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


def counted(number: int, noun: str) -> str:
    """A number of things, such as 1 seed or 3 seeds."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper about a figure, and the function that checks it."""

    figure: str
    says: str
    check: Callable[[Study], Outcome | Comparison]

    def grade(self, study: Study) -> Grade:
        """Check the claim on what a study computed; numbers are graded for the paper's model only."""
        result = self.check(study)
        verdicts = {True: "holds", False: "fails", None: "undecided"}
        if not isinstance(result, Comparison):
            return Grade(self.figure, self.says, None, None, result[1], verdicts[result[0]])
        known = not isinstance(result.value, str)
        verdict = "another model" if known and not study.is_papers_model else verdicts[result.holds]
        value = f"{result.value:.4g}" if known else str(result.value)
        return Grade(self.figure, self.says, result.paper, result.tolerance, value, verdict)


@dataclass(frozen=True)
class Table:
    """Numbers shown next to a figure."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Recipe:
    """One figure: the data that it needs, how it is drawn from what a study computed, and the claims about it."""

    number: str
    title: str
    data: tuple[str, ...]
    draw: Callable[[Study], Axes | Figure]
    caption: Callable[[Study], str]
    table: Callable[[Study], Table] | None
    requirements: tuple[Callable[[Study], str | None], ...]
    claims: list[Claim] = field(default_factory=list)

    @property
    def figure(self) -> str:
        """The number without the letter of a panel."""
        return self.number.rstrip("abc")

    @property
    def heading(self) -> str:
        """The number, within the paper or beyond it, and the title."""
        prefix = {"O": "Options", "B": "Beyond the paper,"}.get(self.number[0], "Figure")
        return f"{prefix} {self.number.lstrip('OB')}. {self.title}"

    def why_missing(self, study: Study) -> str | None:
        """Why the figure cannot be made with this study; None if it can."""
        if missing := study.data.missing(self.data):
            return f"needs {' and '.join(missing)}, which {study.data.name} lacks"
        return next((reason for requirement in self.requirements if (reason := requirement(study))), None)

    def render(self, study: Study) -> Figure:
        """Compute what the figure shows, and draw it."""
        drawn = self.draw(study)
        figure = drawn.figure if isinstance(drawn, Axes) else drawn
        assert isinstance(figure, Figure)
        return figure


@dataclass(frozen=True)
class Paper:
    """A paper, and its figures and claims."""

    key: str
    """What `--of` takes."""
    title: str
    citation: str
    model: str
    """The model of the numbers that it quotes."""
    recipes: dict[str, Recipe] = field(default_factory=dict)
    """By the numbers of the figures; filled by `recipe` and `claim`."""

    def recipe(
        self, numbers: Numbers, title: str, *, data: str = "", caption: Callable[..., str],
        table: Callable[[Study], Table] | None = None, requires: Sequence[Callable[..., str | None]] = (),
    ) -> Callable[[Function], Function]:  # fmt: skip
        """Declare the decorated function as the drawing of a figure.

        data: the datasets that it needs, separated by commas. caption: takes the study and those datasets. requires: functions
        that take the same arguments as the drawing, and return why the figure cannot be made.
        """

        def declare(draw: Function) -> Function:
            for number, arguments in _arguments(numbers):
                heading, datasets = title.format(*arguments), data.format(*arguments).split(", ") if data else ()
                requirements = tuple(_bound(requirement, arguments) for requirement in requires)
                self.recipes[number] = Recipe(
                    number, heading[0].upper() + heading[1:], tuple(datasets), _bound(draw, arguments), _bound(caption, datasets),
                    table, requirements,
                )  # fmt: skip
            return draw

        return declare

    def claim(self, numbers: Numbers, says: str) -> Callable[[Function], Function]:
        """Declare the decorated function as the check of a claim about a figure that is declared above it."""

        def declare(check: Function) -> Function:
            for number, arguments in _arguments(numbers):
                self.recipes[number].claims.append(Claim(number, says.format(*arguments), _bound(check, arguments)))
            return check

        return declare

    @property
    def datasets(self) -> frozenset[str]:
        """All that its figures need."""
        return frozenset(dataset for recipe in self.recipes.values() for dataset in recipe.data)


BRUNNER = Paper(
    "brunner2020",
    "On Identifiability in Transformers, reproduced",
    "Brunner et al., On Identifiability in Transformers, ICLR 2020",
    "bert-base-uncased",
)
recipe, claim, declared = BRUNNER.recipe, BRUNNER.claim, BRUNNER.recipes


def _arguments(numbers: Numbers) -> list[tuple[str, tuple[Any, ...]]]:
    if isinstance(numbers, str):
        return [(numbers, ())]
    pairs = [(number, one) for number, some in numbers.items() for one in (some if isinstance(some, list) else [some])]
    return [(number, one if isinstance(one, tuple) else (one,)) for number, one in pairs]


def _bound(function: Callable[..., Any], arguments: Sequence[Any]) -> Callable[[Study], Any]:
    return lambda study: function(study, *arguments)


def separator(study: Study, *_: Any) -> str | None:
    """Require a tokenizer with [SEP], which decoders do not have."""
    return "is about [SEP], which this model's tokenizer does not have" if study.model.tokenizer.sep_token is None else None


def mlp_probes(study: Study, probe: str) -> str | None:
    """Require MLP probes to be trained, if the figure is about one."""
    needed = probe.startswith("mlp") and not study.scale.perceptrons
    return f"needs MLP probes, which the {study.scale.name} scale leaves out" if needed else None


def decreases(values: Any, slack: float = 0.0) -> Outcome:
    """Check that every value is at most the previous one plus a slack."""
    numbers = np.asarray(values, dtype=float)
    return bool((np.diff(numbers) <= slack).all()), percentages(numbers)


def percentages(numbers: Any) -> str:
    """Format shares as percentages with one decimal."""
    return " ".join(f"{100 * number:.1f}" for number in np.asarray(numbers, dtype=float).ravel()) + " %"
