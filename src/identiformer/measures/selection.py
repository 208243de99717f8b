"""Which heads, queries, keys or sets of tokens a user means."""

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from identiformer.errors import InputError
from identiformer.tokens import Tokens

Numbers = Sequence[int] | Sequence[float] | np.ndarray | torch.Tensor  # what is no whole number is refused with a sentence
Sets = str | Sequence[str] | Mapping[str, Numbers]
Grouping = str | Sequence[str]
"""'segment', 'word' or 'special', or a label for each token."""


def chosen(indices: Iterable[Any] | None, limit: int, name: str, first: int = 0) -> list[int]:
    """The numbers asked for, all of them without a wish; what does not exist is refused."""
    last = first + limit - 1
    try:
        numbers = list(range(first, last + 1)) if indices is None else [operator.index(index) for index in indices]
    except TypeError:
        raise InputError(f"expected whole {name} numbers, got {indices!r}.") from None
    wrong = [number for number in numbers if not first <= number <= last]
    if wrong or not numbers:
        raise InputError(f"expected {name} numbers from {first} to {last}, got {wrong[0] if wrong else 'none'}.")
    return numbers


def read_sets(sets: Sets | None, tokens: Tokens) -> dict[str, list[int]]:
    """Positions of each set: given as such, or as the text of the tokens that are in it."""
    if not isinstance(sets, Mapping):
        sets = [sets] if isinstance(sets, str) else sets
        sets = {text: [key for key, token in enumerate(tokens.texts) if token == text] for text in sets or ()}
    for name, members in sets.items():
        if not len(members):
            raise InputError(
                f"expected the keys, or the text of a token, for the set {name!r}, got none; tokens: {tokens.texts}."
            )
    return {name: chosen(members, len(tokens), "key") for name, members in sets.items()}


def group_tokens(grouping: Grouping | None, tokens: Tokens) -> dict[str, list[int]]:
    """Positions of each group: segments, words, special tokens and others, or one for each label that is given."""
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
    if isinstance(grouping, str) or len(grouping) != len(tokens):
        given = repr(grouping) if isinstance(grouping, str) else f"{len(grouping)} labels"
        raise InputError(f"expected 'segment', 'word', 'special' or a label for each of {len(tokens)} tokens, got {given}.")
    return [str(label) for label in grouping]
