"""One example of a corpus: a text, or two that are read together."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from identiformer.errors import InputError


@dataclass(frozen=True)
class Example:
    """A text, and the second one of a pair where there is one; with tags of their words where there are any.

    >>> Example("The boat left.", tags="DT NN VBD").tagged
    True
    """

    text: str
    pair: str | None = None
    tags: str | None = None
    """One for each word of the text, separated by spaces; words are what spaces separate."""
    pair_tags: str | None = None

    def __post_init__(self) -> None:
        for name in ("text", "pair", "tags", "pair_tags"):
            _check_text(getattr(self, name), name, required=name == "text")
        for text, tags in ((self.text, self.tags), (self.pair, self.pair_tags)):
            if tags is None:
                continue
            words, given = len((text or "").split()), len(tags.split())
            if given != words:
                beginning = (text or "")[:60]
                raise InputError(
                    f"expected {words} tag(s) for the {words} word(s) of {beginning!r}, got {given}; spaces separate words."
                )

    @property
    def tagged(self) -> bool:
        """Whether all its words have tags."""
        return self.tags is not None and (self.pair is None or self.pair_tags is not None)


def _check_text(text: Any, name: str, required: bool) -> None:
    if text is None and not required:
        return
    if not isinstance(text, str):
        raise InputError(f"expected text as the {name} of an example, got {type(text).__name__}; convert it first.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"expected text that UTF-8 can hold, but character {error.start} of {text[:60]!a} is half a surrogate pair; "
            f"repair or remove it."
        ) from None


def read_example(texts: Sequence[str], tags: Sequence[str | None], where: str) -> Example:
    """An example of one text or two, and of the tags of each; an error names the place where it was read."""
    pair, pair_tags = (texts[1], tags[1]) if len(texts) == 2 else (None, None)
    try:
        return Example(texts[0], pair, tags[0], pair_tags)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def corpus_hash(examples: Iterable[Example]) -> str:
    """A hash of the texts, their order and the tags that are given; where one text ends and the next begins is part of it."""
    digest = hashlib.sha256()
    for example in examples:
        feed(digest, example)
    return f"sha256:{digest.hexdigest()}"


def feed(digest: Any, example: Example) -> None:
    """Make an example part of the hash of a corpus."""
    for text in (example.text, example.pair):
        digest.update(b"-" if text is None else b"%d:" % len(text.encode()) + text.encode())
    # Tags that are not given leave no mark: the hashes of corpora without any are those from before there were tags.
    for mark, tags in ((b"tags", example.tags), (b"pair tags", example.pair_tags)):
        if tags is not None:
            digest.update(mark + b"%d:" % len(tags.encode()) + tags.encode())
