"""A corpus, read whole, or surveyed once and then read a block at a time."""

import hashlib
from dataclasses import dataclass
from itertools import islice

from identiformer.errors import InputError
from identiformer.options import check_limit
from identiformer.texts.example import Example, feed
from identiformer.texts.readers.lines import Mark
from identiformer.texts.readers.sources import Corpus, Source, open_source

BLOCK = 32
"""Examples in a block: what is computed together depends on the block alone, so blocks are never split."""


def read_corpus(corpus: Corpus, limit: int | None = None) -> tuple[Example, ...]:
    """The examples of a corpus, or the first so many of them."""
    check_limit(limit)
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
    hashes: tuple[bytes, ...]
    """Of each block, by which a block that is read later is known to be the one that was surveyed."""
    tagged: bool
    """Whether every text brings the tags of its words."""

    @property
    def blocks(self) -> int:
        return len(self.starts)

    def block(self, number: int) -> list[Example]:
        """Read the examples of one block again; a corpus that is no longer the one that was surveyed is an error."""
        size = min(BLOCK, self.examples - number * BLOCK)
        try:
            examples = [example for example, _ in islice(self.source.read(self.starts[number]), size)]
        except InputError as error:
            raise self._changed(number) from error
        if _block_hash(examples) != self.hashes[number]:
            raise self._changed(number)
        return examples

    def _changed(self, number: int) -> InputError:
        first, last = number * BLOCK, min((number + 1) * BLOCK, self.examples) - 1
        return InputError(
            f"expected {self.source.name} to stay as it was while it is read, but examples {first} to {last} (counted from 0) "
            f"have changed; leave it alone and run again in another folder, or restore it and go on with --resume."
        )


def survey_corpus(source: Source, limit: int | None = None) -> Survey:
    """Go through a corpus once, or through the first so many examples, and keep none of them."""
    check_limit(limit)
    digest = hashlib.sha256()
    count, after, tagged = 0, None, True
    block: list[Example] = []
    hashes: list[bytes] = []
    starts: list[Mark | None] = []
    characters: list[int] = []
    for example, mark in islice(source.read(), limit):
        if count % BLOCK == 0:
            starts.append(after)
            characters.append(0)
            block = []
        feed(digest, example)
        block.append(example)
        if len(block) == BLOCK:
            hashes.append(_block_hash(block))
        characters[-1] += len(example.text) + len(example.pair or "")
        count, after, tagged = count + 1, mark, tagged and example.tagged
    if not count:
        raise InputError(f"expected a corpus with at least one example, but {source.name} has none.")
    if count % BLOCK:
        hashes.append(_block_hash(block))
    return Survey(source, count, f"sha256:{digest.hexdigest()}", tuple(starts), tuple(characters), tuple(hashes), tagged)


def _block_hash(examples: list[Example]) -> bytes:
    digest = hashlib.sha256()
    for example in examples:
        feed(digest, example)
    return digest.digest()
