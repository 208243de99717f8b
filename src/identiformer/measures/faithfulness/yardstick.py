"""What a yardstick is: something done to the model or known about the text, which a good map should predict."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from identiformer.errors import InputError
from identiformer.measures.maps.kind import MapKind
from identiformer.passage import Passage


@dataclass(frozen=True)
class Yardstick:
    """A test of maps on one text."""

    name: str
    title: str
    """In a few words, for tables and figures."""
    question: str
    """What a map predicts if it scores well, as a question."""
    paper: str
    truth: Callable[[Passage], Any]
    """What is measured on the model or read from the example: computed once per text, for all maps.

    Raises UnsupportedModelError, with the reason, for a model that it is not defined for, and InputError for an example that
    lacks what it needs."""
    score: Callable[[Any, Tensor], Tensor]
    """From the truth and a map (layer query key) to one score per layer; or, if it judges explanations, from the truth and an
    explanation (source) to one number. Larger is better; NaN where it is undefined."""
    judges_explanations: bool = False
    """Whether it judges explanations of the output, instead of maps of each layer."""
    cheap: bool = True
    """Whether it needs no more than about ten forward passes per token of the text."""
    cost: str = "0"
    """In forward passes over the text."""
    other_scores: Mapping[str, Callable[[Any, Tensor], Tensor]] = field(default_factory=dict)
    """Further scores by name, such as `spearman`, each like `score`. Those of the names `signed` and `absolute` are for signed
    maps only: they take the map with its sign, or its absolute value, where `score` does not."""
    same_as: str | None = None
    """The yardstick that it always equals, if any: the default has that one only."""
    for_kind: Callable[[Any, MapKind], Any] | None = None
    """From the truth to what `score` takes in its place, where a map must be computed again, such as with random weights."""
    counts: Callable[[Any], Mapping[str, int]] | None = None
    """What is counted besides the score, such as evidence that no token covers; summed over a corpus and reported."""

    def judge(self, truth: Any, scores: Tensor, kind: MapKind | None = None) -> Tensor:
        """The score of a map; `kind` is the kind that computed it, which an array that a user passes does not have."""
        if self.for_kind is None:
            return self.score(truth, scores)
        if kind is None:
            raise InputError(f"{self.title} computes a map again, so it judges maps by name and not arrays; leave it out.")
        return self.score(self.for_kind(truth, kind), scores)
