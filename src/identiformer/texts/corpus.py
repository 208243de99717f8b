"""A corpus, read whole, or surveyed once and then read a block at a time."""

import hashlib
from dataclasses import dataclass
from itertools import islice

from identiformer.errors import InputError
from identiformer.texts.example import Example, feed
from identiformer.texts.lines import Mark
from identiformer.texts.sources import Corpus, Source, open_source

BLOCK = 32
"""Examples in a block: what is computed together depends on the block alone, so blocks are never split."""


def read_corpus(corpus: Corpus, limit: int | None = None) -> tuple[Example, ...]:
    """The examples of a corpus, or the first so many of them."""
    _check(limit)
    examples = tuple(example for example, _ in islice(open_source(corpus).read(), limit))
    if not examples:
        raise InputError("expected a corpus with at least one example, got none.")
    return examples


@dataclass(frozen=True)
class Survey:
    """What one pass over a corpus told: how much there is, its hash, and where every block begins."""

    source: Source
    examples: int
    hash: str
    starts: tuple[Mark | None, ...]
    characters: tuple[int, ...]
    """In each block: about how much work it is."""
    tagged: bool
    """Whether every text brings the tags of its words."""

    @property
    def blocks(self) -> int:
        return len(self.starts)

    def block(self, number: int) -> list[Example]:
        """The examples of one block, read anew."""
        size = min(BLOCK, self.examples - number * BLOCK)
        return [example for example, _ in islice(self.source.read(self.starts[number]), size)]


def survey_corpus(source: Source, limit: int | None = None) -> Survey:
    """Go through a corpus once, or through the first so many examples, and keep none of them."""
    _check(limit)
    digest = hashlib.sha256()
    count, after, tagged = 0, None, True
    starts: list[Mark | None] = []
    characters: list[int] = []
    for example, mark in islice(source.read(), limit):
        if count % BLOCK == 0:
            starts.append(after)
            characters.append(0)
        feed(digest, example)
        characters[-1] += len(example.text) + len(example.pair or "")
        count, after, tagged = count + 1, mark, tagged and example.tagged
    if not count:
        raise InputError(f"expected a corpus with at least one example, but {source.name} has none.")
    return Survey(source, count, f"sha256:{digest.hexdigest()}", tuple(starts), tuple(characters), tagged)


def _check(limit: int | None) -> None:
    if limit is not None and limit < 1:
        raise InputError(f"expected at least one example to read, got {limit}.")
