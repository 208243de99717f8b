"""What a measure keeps of a corpus: named whole numbers that add up, so that any order of adding gives the same bits."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from identiformer.errors import ResultError

LIMIT = 2**62


@dataclass(frozen=True, eq=False)
class State:
    """Totals by name, int64 of any shape. Merging adds them; a name that one side lacks counts as zero there.

    >>> State.empty().merge(State({"tokens": np.array(3)})).merge(State({"tokens": np.array(4)}))["tokens"]
    array(7)
    """

    totals: Mapping[str, np.ndarray] = field(default_factory=dict)

    @classmethod
    def empty(cls) -> "State":
        return cls({})

    def __getitem__(self, name: str) -> np.ndarray:
        return self.totals[name]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, State) or self.totals.keys() != other.totals.keys():
            return False
        return all(np.array_equal(total, other[name]) for name, total in self.totals.items())

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def merge(self, other: "State") -> "State":
        """The state of both corpora together."""
        totals = dict(self.totals)
        for name, total in other.totals.items():
            totals[name] = _add(name, totals[name], total) if name in totals else total
        return State(dict(sorted(totals.items())))


@dataclass(frozen=True)
class Failure:
    """An example that could not be measured."""

    example: int
    """Its number in the corpus, from 0."""
    text: str
    what: str
    """The measure that failed; or `reading` or `running`, if the model did not get that far."""
    error: str


def _add(name: str, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    if left.shape != right.shape:
        raise ResultError(
            f"expected states of one model and one set of settings, got {name} of shapes {left.shape} and {right.shape}."
        )
    added = np.asarray(left + right)
    if added.size and max(abs(int(added.max())), abs(int(added.min()))) >= LIMIT:
        raise ResultError(f"expected totals below 2^62, but {name} is larger; split the corpus and compare the parts.")
    return added
