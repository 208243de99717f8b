"""How much is computed: what two cores can do in hours, or a sample that they do in minutes."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """Amounts, by part of the data where they differ; None is all there is."""

    name: str
    identified: Mapping[str, int | None]
    """Examples on which tokens are identified."""
    resplits: int
    neighbor_resplits: int
    """Of the six neighbors of each token, each of which is a task of its own."""
    perceptrons: int
    """Resplits on which MLPs are trained, which takes most of a minute each; 0 leaves them out."""
    perceptron_examples: Mapping[str, int | None]
    """Examples on which MLPs are trained: to find tokens of a part, after single steps, and neighbors."""
    attributed: Mapping[str, int | None]
    """Examples whose hidden vectors are attributed."""
    directions: Mapping[str, int]
    """Random directions a token, of attribution."""
    trained: int | None
    """Examples on which models are fine-tuned."""
    segments: int
    """Of Wikipedia."""
    compared: int
    """Pairs on which is measured what goes beyond the paper."""
    exact: int
    """Sentences whose whole Jacobians are taken to compare options: those take a minute a sentence."""

    def resplits_for(self, purpose: str) -> int:
        """Of linear maps, by what they are to find."""
        return self.neighbor_resplits if purpose == "neighbors" else self.resplits

    def sentence(self, part: str, measure: str) -> str:
        """How many examples a figure rests on, in words."""
        number = (self.identified if measure == "identified" else self.attributed)[part]
        return f"{part}, {'all examples' if number is None else f'the first {number} examples'}"


FULL = Scale(
    "full",
    identified={"MRPC": None, "CoLA": None, "MNLI": 500},
    resplits=10,
    neighbor_resplits=3,
    perceptrons=1,
    perceptron_examples={"MRPC": None, "CoLA": 200, "MNLI": 60, "steps": 40, "neighbors": 30},
    attributed={"MRPC": None, "CoLA": None, "MNLI": 1000},
    directions={"MRPC": 3, "CoLA": 3, "MNLI": 2},
    trained=2000,
    segments=1000,
    compared=16,
    exact=2,
)
QUICK = Scale(
    "quick",
    identified={"MRPC": 80, "CoLA": 200, "MNLI": 80},
    resplits=3,
    neighbor_resplits=3,
    perceptrons=0,
    perceptron_examples={},
    attributed={"MRPC": 10, "CoLA": 32, "MNLI": 12},
    directions={"MRPC": 3, "CoLA": 3, "MNLI": 3},
    trained=64,
    segments=64,
    compared=1,
    exact=1,
)
