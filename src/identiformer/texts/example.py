"""One example of a corpus: a text or a pair of texts with what is known about it, and the embedded passage."""

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


Span = tuple[int, int]
"""The first character of a stretch of text, and the one after its last."""


@dataclass(frozen=True)
class Example:
    """A text or a pair of texts, optionally with part-of-speech tags, a label, and the evidence for a decision.

    Parameters
    ----------
    text : str
        The text, or the first text of a pair.
    pair : str, optional
        The second text of a pair.
    tags, pair_tags : str, optional
        One tag per word of `text` and of `pair`, separated by spaces. Words are separated by spaces too.
    label : str, optional
        The class of the text.
    evidence : tuple of (int, int), optional
        Characters of `text`, from and up to, that decide its label or the word at `answer`: a human rationale, or a cue.
    answer : (int, int), optional
        The characters of `text` that hold the word which the evidence decides.

    Examples
    --------
    >>> Example("The boat left.", tags="DT NN VBD").tagged
    True
    >>> example = Example("Her boats have left.", evidence=((4, 9),), answer=(10, 14))
    >>> [example.text[slice(*span)] for span in (*example.evidence, example.answer)]
    ['boats', 'have']
    """

    text: str
    pair: str | None = None
    tags: str | None = None
    pair_tags: str | None = None
    label: str | None = None
    evidence: tuple[Span, ...] | None = None
    answer: Span | None = None

    def __post_init__(self) -> None:
        for name in ("text", "pair", "tags", "pair_tags", "label"):
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
        if not isinstance(self.evidence, tuple | None):
            raise InputError(f"expected a tuple of spans as the evidence of an example, got {type(self.evidence).__name__}.")
        for span in self.evidence or ():
            _require_span("evidence", span, self.text)
        if self.answer is not None:
            _require_span("answer", self.answer, self.text)

    @property
    def tagged(self) -> bool:
        """Whether all its words have tags."""
        return self.tags is not None and (self.pair is None or self.pair_tags is not None)


def _require_span(name: str, span: Span, text: str) -> None:
    """Raise InputError unless a span is two numbers with at least one character of the text between them."""
    numbers = isinstance(span, tuple) and len(span) == 2 and all(type(end) is int for end in span)
    if not numbers or not 0 <= span[0] < span[1] <= len(text):
        raise InputError(
            f"expected characters of the text, (from, up to) within 0 and {len(text)}, as {name} of an example, got {span!r}."
        )


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
    """Hash the texts, their boundaries, their order, and what is known about them."""
    digest = hashlib.sha256()
    for example in examples:
        update_hash(digest, example)
    return f"sha256:{digest.hexdigest()}"


def update_hash(digest: Any, example: Example) -> None:
    """Add an example to the hash of a corpus."""
    for text in (example.text, example.pair):
        digest.update(b"-" if text is None else b"%d:" % len(text.encode()) + text.encode())
    # What is absent adds nothing, so corpora without tags or evidence keep the hashes they had before those existed.
    spans = {"evidence": example.evidence, "answer": example.answer and (example.answer,)}
    written = {name: content and " ".join(f"{start}-{stop}" for start, stop in content) for name, content in spans.items()}
    for mark, content in (("tags", example.tags), ("pair tags", example.pair_tags), ("label", example.label), *written.items()):
        if content is not None:
            digest.update(b"%s%d:%s" % (mark.encode(), len(content.encode()), content.encode()))
