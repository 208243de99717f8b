"""One example of a corpus: a text, or two that are read together."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Example:
    """A text, and the second one of a pair where there is one."""

    text: str
    pair: str | None = None


def corpus_hash(examples: Iterable[Example]) -> str:
    """A hash of the texts and their order; where one text ends and the next begins is part of it."""
    digest = hashlib.sha256()
    for example in examples:
        feed(digest, example)
    return f"sha256:{digest.hexdigest()}"


def feed(digest: Any, example: Example) -> None:
    """Make an example part of the hash of a corpus."""
    for text in (example.text, example.pair):
        digest.update(b"-" if text is None else b"%d:" % len(text.encode()) + text.encode())
