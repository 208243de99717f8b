"""Text that was written with a space around every token, put back as people write it, a sentence at a time."""

import re
from collections.abc import Iterator

JOINTS = {"@-@": "-", "@,@": ",", "@.@": "."}
"""Marks within a word or number, which WikiText sets apart from those between words."""
CLOSING = (".", ",", ";", ":", "!", "?", ")", "]", "}", "%", "°", "”", "’", "...", "…")
OPENING = ("(", "[", "{", "“", "‘", "$", "£", "¥", "₱", "#")
ENDS = (".", "!", "?")
AFTER_END = ('"', "”", ")", "]")
CLITIC = re.compile(r"'\w.*")
BETWEEN_NUMBERS = "–"
"""A range of years or pages, where numbers stand on both sides; a dash otherwise."""


def sentences(line: str) -> list[str]:
    """The sentences of a paragraph, with its spacing undone.

    A full stop, exclamation or question mark that stands alone ends a sentence, and takes closing quotes and brackets with it;
    the full stop of an abbreviation does not stand alone in such a text.
    Straight quotation marks open and close in turn. A lone apostrophe closes what one opened, or follows a word in s, or opens.
    What the spacing has lost is not known again: a slash is joined to both sides, even between lines of a poem, and dashes
    other than in ranges of numbers keep their spaces.

    >>> sentences('The " well @-@ known " dogs \\' ball cost 1 @,@ 500 . It was n\\'t ( he said ) theirs .')
    ['The "well-known" dogs\\' ball cost 1,500.', "It wasn't (he said) theirs."]
    """
    found: list[str] = []
    sentence, ended = "", False
    for token, apart in _with_spaces(line.split()):
        if ended and apart:
            found.append(sentence)
            sentence = ""
        sentence += " " * (apart and bool(sentence)) + JOINTS.get(token, token)
        ended = not apart and (token in ENDS or (ended and token in AFTER_END))
    return [*found, sentence] if sentence else found


def _with_spaces(tokens: list[str]) -> Iterator[tuple[str, bool]]:
    """Each token, and whether a space stands before it in text."""
    open_marks: set[str] = set()
    before, free = "", False  # free: whether the token before lets a space follow
    for place, token in enumerate(tokens):
        after = tokens[place + 1] if place + 1 < len(tokens) else ""
        apart, lets_follow = True, True
        if token in JOINTS or token == "/" or (token == BETWEEN_NUMBERS and before[-1:].isdigit() and after[:1].isdigit()):
            apart = lets_follow = False
        elif token in CLOSING or CLITIC.fullmatch(token) or token == "n't":
            apart = False
        elif token in OPENING:
            lets_follow = False
        elif token in ('"', "'"):
            if token in open_marks:
                open_marks.remove(token)
                apart = False
            elif token == "'" and before.endswith("s"):
                apart = False
            else:
                open_marks.add(token)
                lets_follow = False
        yield token, apart and free
        before, free = token, lets_follow
