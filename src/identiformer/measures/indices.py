"""Layers, heads, queries, keys and groups of tokens as a user passes them, checked and expanded to lists of indices."""

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from identiformer.errors import InputError
from identiformer.tokens import Tokens

Indices = int | np.integer | Sequence[int] | Sequence[float] | np.ndarray | torch.Tensor  # fractions are rejected when run
"""One index or several."""
TokenSets = str | Sequence[str] | Mapping[str, Indices]
"""Token texts, each standing for every token with that text, or a mapping from names to positions."""
Grouping = str | Sequence[str]
"""'segment', 'word', 'special' or 'span', or one label per token."""


def select_indices(indices: Iterable[Any] | Indices | None, count: int, name: str, first: int = 0) -> list[int]:
    """Expand one index, several, or None for all of them to a list, and reject those that do not exist.

    >>> select_indices(3, 6, "layer", first=1), select_indices(None, 3, "head")
    ([3], [0, 1, 2])
    """
    last = first + count - 1
    several: Iterable[Any] = range(first, last + 1)
    if indices is not None:
        several = indices if isinstance(indices, Iterable) and getattr(indices, "ndim", 1) else [indices]
    try:
        listed = [operator.index(index) for index in several]  # pyright: ignore[reportArgumentType]
    except TypeError:
        raise InputError(f"expected integers from {first} to {last} to choose each {name}, got {indices!r}.") from None
    wrong = [index for index in listed if not first <= index <= last]
    if wrong or not listed:
        raise InputError(f"expected a {name} from {first} to {last}, got {wrong[0] if wrong else 'none'}.")
    return listed


def token_sets(sets: TokenSets | None, tokens: Tokens) -> dict[str, list[int]]:
    """Return the positions of each named set of tokens."""
    if not isinstance(sets, Mapping):
        texts = [sets] if isinstance(sets, str) else sets or ()
        sets = {text: [position for position, token in enumerate(tokens.texts) if token == text] for text in texts}
    for name, members in sets.items():
        if not np.size(members):
            raise InputError(
                f"expected positions, or the text of a token, for the set {name!r}, got none; the tokens are {tokens.texts}."
            )
    return {name: select_indices(members, len(tokens), "key") for name, members in sets.items()}


def group_tokens(grouping: Grouping | None, tokens: Tokens) -> dict[str, list[int]]:
    """Return the positions of each group of tokens, in the order in which groups first occur."""
    groups: dict[str, list[int]] = {}
    for position, label in enumerate(_labels(grouping, tokens)):
        groups.setdefault(label, []).append(position)
    return groups


def _labels(grouping: Grouping | None, tokens: Tokens) -> Sequence[str]:
    if grouping is None:
        return ()
    if grouping == "segment":
        return [("first text", "second text")[segment] for segment in tokens.segments]
    if grouping == "special":
        return ["special" if special else "other" for special in tokens.special]
    if grouping == "word":
        return tokens.word_labels()
    if grouping == "span":
        if tokens.span_names is None:
            raise InputError("expected the answer of a language model, whose spans have names, got a text; use model.generate.")
        return tokens.span_names
    if isinstance(grouping, str) or len(grouping) != len(tokens):
        got = repr(grouping) if isinstance(grouping, str) else f"{len(grouping)} labels"
        raise InputError(f"expected 'segment', 'word', 'special', 'span' or a label for each of {len(tokens)} tokens, got {got}.")
    return [str(label) for label in grouping]
