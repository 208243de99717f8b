"""The words of a text as the Penn Treebank has them, from those that a tokenizer makes of it."""

import re
from collections.abc import Iterable

Span = tuple[int, int]
"""From a character of a text, up to another."""

CLITIC = re.compile(r"n['’]t\b|['’](?:s|re|ve|ll|d|m)\b", re.IGNORECASE)
FORMS = {"’": "'", "–": "--", "—": "--", "“": "``", "”": "''"}
"""Marks as taggers have learned them."""


def penn_words(text: str, words: Iterable[Span]) -> list[tuple[Span, str]]:
    """Where each word stands in the text, and how the treebank writes it.

    A clitic is a word of its own, whatever pieces a tokenizer makes of it: do + n't for don + ' + t, company + 's. Straight
    quotation marks open and close in turn.

    >>> [word for _, word in penn_words("I don't.", [(0, 1), (2, 5), (5, 6), (6, 7), (7, 8)])]
    ['I', 'do', "n't", '.']
    """
    spans = {_stripped(text, span) for span in words}
    end = max((stop for _, stop in spans), default=0)
    clitics = [found.span() for found in CLITIC.finditer(text, 0, end)]
    for first, last in clitics:
        spans = {(start, min(stop, first) if start < first else stop) for start, stop in spans if not first <= start < last}
    answer: list[tuple[Span, str]] = []
    quotes = 0
    for span in sorted({*spans, *clitics}):
        word = text[slice(*span)]
        if word == '"':
            word = ("``", "''")[quotes % 2]
            quotes += 1
        if word:
            answer.append((span, "".join(FORMS.get(character, character) for character in word)))
    return answer


def _stripped(text: str, span: Span) -> Span:
    """Without the space that some tokenizers count to the word behind it."""
    word = text[slice(*span)]
    return span[0] + len(word) - len(word.lstrip()), span[1] - len(word) + len(word.rstrip())
