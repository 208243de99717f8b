"""What a recipe for a figure of the paper is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from identiformer.paper.claims import Claim
from identiformer.paper.computations.study import Study


@dataclass(frozen=True)
class Table:
    """Numbers that stand beside a figure."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Recipe:
    """One figure: the data it needs, how it is drawn from what a study computed, what the paper says of it."""

    number: str
    title: str
    needs: tuple[str, ...]
    draw: Callable[[Study], Figure]
    caption: Callable[[Study], str]
    claims: tuple[Claim, ...] = ()
    table: Callable[[Study], Table] | None = None
    needs_separator: bool = False
    """Whether it is about [SEP], which a decoder does not have."""
    needs_perceptrons: bool = False
    needs_tags: bool = False
    needs_layer: int = 1
    """The layer that it is about."""
    needs_word: str | None = None
    """The token that it is about, of the pair that is followed."""

    @property
    def figure(self) -> str:
        """The number without the letter of a part."""
        return self.number.rstrip("abc")

    @property
    def heading(self) -> str:
        """Its place in the paper, or beyond it, and its title."""
        kind = {"O": "Options", "B": "Beyond the paper,"}.get(self.number[0], "Figure")
        return f"{kind} {self.number.lstrip('OB')}. {self.title}"


def whole(ax: Axes) -> Figure:
    """The figure that axes stand in."""
    figure = ax.figure
    assert isinstance(figure, Figure)
    return figure
