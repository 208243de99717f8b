"""Which columns of a table, or fields of a record, hold the texts and the tags of their words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from identiformer.errors import InputError
from identiformer.texts.example import Example, example_at

KNOWN: tuple[tuple[str, ...], ...] = (
    ("#1 String", "#2 String"),
    ("sentence1", "sentence2"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("premise", "hypothesis"),
    ("sentence",),
    ("text",),
)
"""Names of the columns of the first text and the second in GLUE tasks and other corpora."""


def tag_column(name: str) -> str:
    """Return the name of the column that holds the tags of the words of another column."""
    return f"{name} tags"


@dataclass(frozen=True)
class Columns:
    """The columns that a user chose; without a choice, those of a known name are read."""

    text: str | None = None
    pair: str | None = None

    def __post_init__(self) -> None:
        if self.pair is not None and self.text is None:
            raise InputError(f"expected a column for the first text, got only {self.pair!r} for the second; add --text-column.")

    def choose(self, present: Sequence[str], where: str) -> tuple[str, ...]:
        """Return the names of the one or two columns to read, of those that are present."""
        chosen = tuple(name for name in (self.text, self.pair) if name is not None)
        for names in (chosen,) if chosen else KNOWN:
            if all(name in present for name in names):
                return names
        expected = " and ".join(map(repr, chosen)) or "of texts"
        raise InputError(
            f"expected the column{'' if len(chosen) == 1 else 's'} {expected} in {where}, but there are "
            f"{', '.join(map(repr, present))[:400]}; choose with --text-column and --pair-column (text_column=, pair_column=)."
        )


def example_of_record(record: Mapping[str, Any], names: Sequence[str], where: str) -> Example:
    """Return the example in these fields of a JSON object or a row of a dataset, with tags if the record has them."""
    texts = [record[name] for name in names]
    if not all(isinstance(text, str) and text.strip() for text in texts):
        raise InputError(f"expected texts that are not empty in {where}, got {', '.join(map(repr, texts))[:60]}.")
    tags = [record.get(tag_column(name)) for name in names]
    for name, words in zip(names, tags, strict=True):
        if not isinstance(words, str | None):
            raise InputError(f"expected tags separated by spaces under {tag_column(name)!r} in {where}, got {str(words)[:60]}.")
    return example_at(where, [text.strip() for text in texts], [words and words.strip() for words in tags])
