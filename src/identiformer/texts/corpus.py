"""A corpus, read at once, or surveyed first and then read one block at a time."""

import hashlib
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from identiformer.errors import InputError
from identiformer.options import check_limit
from identiformer.texts.example import Example, corpus_hash, update_hash
from identiformer.texts.readers.lines import Mark, Source
from identiformer.texts.readers.sources import Corpus, open_source

BLOCK = 32
"""Examples per block. Results depend on which examples are batched together, so blocks are never split."""


def read_corpus(corpus: Corpus, limit: int | None = None) -> tuple[Example, ...]:
    """Read the examples of a corpus into memory.

    Parameters
    ----------
    corpus : str, path or sequence
        A file (.tsv, .csv, .jsonl, .txt), a folder of GLUE, of ERASER or of tables of cues, "planted:induction" or
        "planted:needle" for texts with a known source of the answer, "-" for standard input, the name of a Hugging Face dataset,
        or a sequence of texts, pairs of texts and `Example`.
    limit : int, optional
        Read only the first `limit` examples.

    Returns
    -------
    tuple of Example

    Examples
    --------
    >>> read_corpus(["A text.", ("A text.", "Its pair.")])[1].pair
    'Its pair.'
    """
    check_limit(limit)
    examples = tuple(example for example, _ in islice(open_source(corpus).read(), limit))
    if not examples:
        raise InputError("expected a corpus with at least one example, got none.")
    return examples


def read_texts(path: Path, least: int, most: int) -> tuple[str, ...]:
    """Read a file of one text per line; the number of texts is limited."""
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"expected a text file, but {path} cannot be read ({error}).") from None
    if not least <= len(lines) <= most:
        expected = f"{least}" if least == most else f"{least} to {most}"
        raise InputError(f"expected {expected} texts in {path}, one per line, got {len(lines)}.")
    return tuple(lines)


@dataclass(frozen=True)
class Survey:
    """The result of one pass over a corpus: its size, its hash, and where every block begins."""

    source: Source
    examples: int
    hash: str
    starts: tuple[Mark | None, ...]
    """Where each block begins; None is the beginning of the corpus."""
    characters: tuple[int, ...]
    """Number of characters per block, as an estimate of the work."""
    hashes: tuple[str, ...]
    """Hash per block, to notice that a corpus has changed since the survey."""
    tagged: bool
    """Whether every example has tags."""
    paired: bool
    """Whether some example is a pair of texts."""

    def block(self, number: int) -> list[Example]:
        """Read the examples of one block; raise InputError if they have changed since the survey."""
        size = min(BLOCK, self.examples - number * BLOCK)
        try:
            examples = [example for example, _ in islice(self.source.read(self.starts[number]), size)]
        except InputError as error:
            raise self._changed(number) from error
        if corpus_hash(examples) != self.hashes[number]:
            raise self._changed(number)
        return examples

    def _changed(self, number: int) -> InputError:
        first, last = number * BLOCK, min((number + 1) * BLOCK, self.examples) - 1
        return InputError(
            f"expected {self.source.name} to stay the same during the run, but examples {first} to {last} (counted from 0) "
            f"have changed; run again in another folder, or restore it and continue with --resume."
        )


def survey_corpus(source: Source, limit: int | None = None) -> Survey:
    """Read a corpus, or its first `limit` examples, once without keeping the examples."""
    check_limit(limit)
    digest, count, tagged, paired = hashlib.sha256(), 0, True, False
    starts: list[Mark | None] = [None]
    characters: list[int] = []
    hashes: list[str] = []
    examples_and_marks = islice(source.read(), limit)
    while block := list(islice(examples_and_marks, BLOCK)):
        examples = [example for example, _ in block]
        for example in examples:
            update_hash(digest, example)
        hashes.append(corpus_hash(examples))
        characters.append(sum(len(example.text) + len(example.pair or "") for example in examples))
        tagged = tagged and all(example.tagged for example in examples)
        paired = paired or any(example.pair is not None for example in examples)
        count += len(examples)
        starts.append(block[-1][1])
    if not count:
        raise InputError(f"expected a corpus with at least one example, but {source.name} has none.")
    marks, sizes = tuple(starts[:-1]), tuple(characters)
    return Survey(source, count, f"sha256:{digest.hexdigest()}", marks, sizes, tuple(hashes), tagged, paired)
