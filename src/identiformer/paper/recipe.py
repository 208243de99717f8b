"""What a recipe for a figure of the paper is."""

from collections.abc import Callable
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from identiformer.paper.claims import Claim
from identiformer.paper.study import Study


@dataclass(frozen=True)
class Recipe:
    """One figure: the data it needs, how it is drawn from what a study computed, what the paper says of it."""

    number: str
    title: str
    needs: tuple[str, ...]
    draw: Callable[[Study], Figure]
    caption: Callable[[Study], str]
    claims: tuple[Claim, ...] = ()
    needs_separator: bool = False
    """Whether it is about [SEP], which a decoder does not have."""
    needs_perceptrons: bool = False
    needs_tags: bool = False
    needs_layer: int = 1
    """The layer that it is about."""

    @property
    def figure(self) -> int:
        """The number without the letter of a part."""
        return int(self.number.rstrip("abc"))


def whole(ax: Axes) -> Figure:
    """The figure that axes stand in."""
    figure = ax.figure
    assert isinstance(figure, Figure)
    return figure
