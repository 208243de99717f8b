"""A corpus, from a file or from texts at hand."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from identiformer.errors import InputError
from identiformer.texts.example import Example
from identiformer.texts.glue import read_glue

Corpus = str | os.PathLike[str] | Sequence[str | tuple[str, str] | Example]
"""The path of a file, or texts, pairs of texts and examples."""

READERS: dict[str, Callable[[Path], list[Example]]] = {".tsv": read_glue}


def read_corpus(corpus: Corpus, first: int | None = None) -> tuple[Example, ...]:
    """The examples of a corpus, or the first so many of them."""
    if first is not None and first < 1:
        raise InputError(f"expected at least one example to read, got first={first}.")
    examples = _read(Path(corpus)) if isinstance(corpus, str | os.PathLike) else [_as_example(item) for item in corpus]
    if not examples:
        raise InputError("expected a corpus with at least one example, got none.")
    return tuple(examples[:first])


def _read(path: Path) -> list[Example]:
    if not path.is_file():
        raise InputError(f"expected a file with a corpus, but there is none at {path}.")
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise InputError(f"expected a corpus as {' or '.join(READERS)}, got {path.name}; give a list of texts instead.")
    try:
        return reader(path)
    except UnicodeDecodeError:
        raise InputError(f"expected text in UTF-8, but {path} is in another encoding; convert it first.") from None


def _as_example(item: str | tuple[str, str] | Example) -> Example:
    if isinstance(item, Example):
        return item
    return Example(item) if isinstance(item, str) else Example(*item)
