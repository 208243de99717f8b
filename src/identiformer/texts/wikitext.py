"""Wikipedia articles from raw WikiText files, with the spacing of ordinary text restored."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from identiformer.errors import InputError
from identiformer.texts.readers.lines import Lines

HEADING = re.compile(r"(?P<marks>=(?: =)*) (?P<words>[^=].*?) (?P=marks)")
JOINTS = {"@-@": "-", "@,@": ",", "@.@": "."}
"""WikiText's tokens for punctuation within a word or number, as opposed to between words."""
CLOSING = (".", ",", ";", ":", "!", "?", ")", "]", "}", "%", "°", "”", "’", "...", "…")
OPENING = ("(", "[", "{", "“", "‘", "$", "£", "¥", "₱", "#")
ENDS = (".", "!", "?")
AFTER_END = ('"', "”", ")", "]")
CLITIC = re.compile(r"'\w.*")
RANGE_DASH = "–"
"""Between two numbers a range of years or pages; otherwise a dash."""


@dataclass(frozen=True)
class Article:
    """The title and the sentences of one article, without headings."""

    title: str
    sentences: tuple[str, ...]


def read_wikitext(path: str | os.PathLike[str]) -> tuple[Article, ...]:
    r"""Read the articles of a raw WikiText file as ordinary text.

    An article begins with `= Title =`; deeper headings such as `= = Section = =` are skipped. A formula that the file breaks
    over lines can look like a title, and what follows then counts as another article: 62 articles are found in the test
    file of WikiText-2, which has 60.

    Parameters
    ----------
    path : str or path
        A file such as wiki.test.raw.

    Returns
    -------
    tuple of Article
        Each with a `title` and a tuple of `sentences`.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "wiki.raw"
    ...     _ = path.write_text("= Ferry = \n A ferry is a boat . It carries people . \n")
    ...     read_wikitext(path)
    (Article(title='Ferry', sentences=('A ferry is a boat.', 'It carries people.')),)
    """
    if not Path(path).is_file():
        raise InputError(f"expected a raw WikiText file, but there is none at {path}; check the path.")
    articles: list[tuple[str, list[str]]] = []
    lines = Lines(Path(path))
    for line in lines:
        text = line.strip()
        heading = HEADING.fullmatch(text)
        if heading is not None and heading["marks"] == "=":
            articles.append((" ".join(sentences(heading["words"])), []))
        elif heading is None and text:
            if not articles:
                raise InputError(
                    f"expected a raw WikiText file, in which every article begins with a title such as '= Alan Turing =', but "
                    f"line {lines.mark.lines} of {path} is {text[:60]!r}."
                )
            articles[-1][1].extend(sentences(text))
    if not articles:
        raise InputError(f"expected a raw WikiText file, but {path} is empty.")
    return tuple(Article(title, tuple(content)) for title, content in articles)


def sentences(line: str) -> list[str]:
    r"""Split a paragraph into sentences, and remove the spaces that WikiText puts around every token.

    A sentence ends at a full stop, exclamation or question mark that is a token of its own, together with closing quotes and
    brackets; the full stop of an abbreviation is part of its token. Straight quotation marks open and close in turn. A lone
    apostrophe closes an open one, or follows a word in s, or opens. Some spacing cannot be restored: a slash is joined to both
    neighbors, even between lines of a poem, and dashes keep their spaces except in ranges of numbers.

    >>> sentences('The " well @-@ known " dogs \' ball cost 1 @,@ 500 . It was n\'t ( he said ) theirs .')
    ['The "well-known" dogs\' ball cost 1,500.', "It wasn't (he said) theirs."]
    """
    finished: list[str] = []
    sentence, ended = "", False
    for token, apart in _with_spaces(line.split()):
        if ended and apart:
            finished.append(sentence)
            sentence = ""
        sentence += " " * (apart and bool(sentence)) + JOINTS.get(token, token)
        ended = not apart and (token in ENDS or (ended and token in AFTER_END))
    return [*finished, sentence] if sentence else finished


def _with_spaces(tokens: list[str]) -> Iterator[tuple[str, bool]]:
    """Yield each token, and whether a space precedes it in ordinary text."""
    open_marks: set[str] = set()
    before, space_allowed = "", False
    for index, token in enumerate(tokens):
        after = tokens[index + 1] if index + 1 < len(tokens) else ""
        space_before, space_after = True, True
        if token in JOINTS or token == "/" or (token == RANGE_DASH and before[-1:].isdigit() and after[:1].isdigit()):
            space_before = space_after = False
        elif token in CLOSING or CLITIC.fullmatch(token) or token == "n't":
            space_before = False
        elif token in OPENING:
            space_after = False
        elif token in ('"', "'"):
            if token in open_marks:
                open_marks.remove(token)
                space_before = False
            elif token == "'" and before.endswith("s"):
                space_before = False
            else:
                open_marks.add(token)
                space_after = False
        yield token, space_before and space_allowed
        before, space_allowed = token, space_after
