"""Which columns of a table, or keys of a record, hold the texts."""

from collections.abc import Sequence
from dataclasses import dataclass

from identiformer.errors import InputError

KNOWN: tuple[tuple[str, str | None], ...] = (
    ("#1 String", "#2 String"),
    ("sentence1", "sentence2"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("premise", "hypothesis"),
    ("sentence", None),
    ("text", None),
)
"""The names that GLUE tasks and other corpora give to the first text and the second."""


def tag_column(name: str) -> str:
    """The column that holds tags of the words of another one, if there is such a column."""
    return f"{name} tags"


@dataclass(frozen=True)
class Columns:
    """The names that a user gives; without a first one, known names are looked for."""

    text: str | None = None
    pair: str | None = None

    def __post_init__(self) -> None:
        if self.pair is not None and self.text is None:
            raise InputError(
                f"expected the column of the first text beside that of the second ({self.pair!r}); add --text-column."
            )

    def among(self, present: Sequence[str], where: str) -> tuple[str, ...]:
        """The columns to read, of those that are present."""
        wanted = KNOWN if self.text is None else ((self.text, self.pair),)
        for names in wanted:
            asked = tuple(name for name in names if name is not None)
            if all(name in present for name in asked):
                return asked
        expected = " and ".join(repr(name) for name in wanted[0] if name is not None) if self.text is not None else "of texts"
        there = ", ".join(repr(name) for name in present)[:400]
        raise InputError(
            f"expected the column{'s' if self.pair or self.text is None else ''} {expected} in {where}, but there are {there}; "
            f"name the right ones with --text-column and --pair-column (text_column=, pair_column=)."
        )
