"""One example of a corpus: a text or a pair of texts, and the embedded passage."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from identiformer.errors import InputError

PASSAGE = (
    "When the ferry company closed its winter route, the islanders wrote to the minister, and the minister wrote back. "
    "The letter thanked them for their patience, praised the beauty of the coast, and explained that the old boat could not "
    "be repaired before spring. Nobody on the island had asked about the boat. They had asked about the doctor, who lived on "
    "the mainland and came with the ferry every Tuesday, and about the schoolchildren, whose teacher did the same. So the "
    "baker, who owned the only vessel with an engine, began to carry passengers between loaves. By March the company "
    "had repaired its boat and offered to take the route back; the islanders thanked it for its patience, praised the beauty "
    "of its boat, and went on sailing with the baker."
)
"""The default text: long enough for every head of the embedded model to have a null space."""


@dataclass(frozen=True)
class Example:
    """A text or a pair of texts, optionally with part-of-speech tags.

    Parameters
    ----------
    text : str
        The text, or the first text of a pair.
    pair : str, optional
        The second text of a pair.
    tags, pair_tags : str, optional
        One tag per word of `text` and of `pair`, separated by spaces. Words are separated by spaces too.

    Examples
    --------
    >>> Example("The boat left.", tags="DT NN VBD").tagged
    True
    """

    text: str
    pair: str | None = None
    tags: str | None = None
    pair_tags: str | None = None

    def __post_init__(self) -> None:
        for name in ("text", "pair", "tags", "pair_tags"):
            content = getattr(self, name)
            if not isinstance(content, str if name == "text" else str | None):
                raise InputError(f"expected text as the {name} of an example, got {type(content).__name__}; convert it first.")
            require_unicode(content or "")
        for text, tags in ((self.text, self.tags), (self.pair, self.pair_tags)):
            if tags is None:
                continue
            word_count, tag_count = len((text or "").split()), len(tags.split())
            if tag_count != word_count:
                beginning = (text or "")[:60]
                raise InputError(
                    f"expected {word_count} tag(s) for the {word_count} word(s) of {beginning!r}, got {tag_count}; spaces "
                    f"separate words."
                )

    @property
    def tagged(self) -> bool:
        """Whether all its words have tags."""
        return self.tags is not None and (self.pair is None or self.pair_tags is not None)


def require_unicode(text: str) -> None:
    """Raise InputError if a text cannot be written in UTF-8 because it holds half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"expected text in Unicode, got half of a surrogate pair ({text[error.start]!a}) at character {error.start} of "
            f"{text[:60]!a}; read it as UTF-8, or repair or remove it."
        ) from None


def example_at(where: str, texts: Sequence[str], tags: Sequence[str | None]) -> Example:
    """Make an example of one text or two and their tags; an error names the line or row they were read from."""
    pair, pair_tags = (texts[1], tags[1]) if len(texts) == 2 else (None, None)
    try:
        return Example(texts[0], pair, tags[0], pair_tags)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def corpus_hash(examples: Iterable[Example]) -> str:
    """Hash the texts, their boundaries, their order and their tags."""
    digest = hashlib.sha256()
    for example in examples:
        update_hash(digest, example)
    return f"sha256:{digest.hexdigest()}"


def update_hash(digest: Any, example: Example) -> None:
    """Add an example to the hash of a corpus."""
    for text in (example.text, example.pair):
        digest.update(b"-" if text is None else b"%d:" % len(text.encode()) + text.encode())
    # Absent tags add nothing, so corpora without tags keep the hashes they had before tags existed.
    for mark, tags in ((b"tags", example.tags), (b"pair tags", example.pair_tags)):
        if tags is not None:
            digest.update(mark + b"%d:" % len(tags.encode()) + tags.encode())
