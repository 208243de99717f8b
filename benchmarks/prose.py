"""English of a given length that every Python brings along: its own documentation."""

from pydoc_data.topics import topics
from typing import Any


def prose(tokenizer: Any, tokens: int, skip: int = 0) -> str:
    """As many whole words as make at most this many tokens, after skipping some."""
    words = " ".join(topics[name] for name in sorted(topics)).split()[skip:]
    low, high = 1, tokens
    while low < high:
        middle = (low + high + 1) // 2
        fits = len(tokenizer(" ".join(words[:middle]))["input_ids"]) <= tokens
        low, high = (middle, high) if fits else (low, middle - 1)
    return " ".join(words[:low])
