"""Articles of Wikipedia as WikiText has them in its raw files."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from identiformer.errors import InputError
from identiformer.texts.readers.lines import Lines
from identiformer.texts.wikipedia.spacing import sentences

HEADING = re.compile(r"(?P<marks>=(?: =)*) (?P<words>[^=].*?) (?P=marks)")


@dataclass(frozen=True)
class Article:
    """One article: its title, and its sentences in their order, headings left out."""

    title: str
    sentences: tuple[str, ...]


def read_wikitext(path: str | os.PathLike[str]) -> tuple[Article, ...]:
    """The articles of a raw WikiText file, as plain text.

    An article begins with `= Title =`; `= = Section = =` and deeper headings are left out, for they are no sentences. Every
    other line is a paragraph, whose spacing is undone. A formula that such a file breaks over lines can look like a title; what
    follows it then counts as another article: the test file of WikiText-2 has 60 articles, and 62 are found.
    """
    if not Path(path).is_file():
        raise InputError(f"expected a raw WikiText file, but there is none at {path}.")
    titles: list[str] = []
    texts: list[list[str]] = []
    lines = Lines(Path(path))
    for line in lines:
        text = line.strip()
        heading = HEADING.fullmatch(text)
        if heading is not None and heading["marks"] == "=":
            titles.append(" ".join(sentences(heading["words"])))
            texts.append([])
        elif heading is None and text:
            if not titles:
                raise InputError(
                    f"expected a raw WikiText file, in which a title such as '= Alan Turing =' opens every article, but line "
                    f"{lines.mark.lines} of {path} is {text[:60]!r}."
                )
            texts[-1] += sentences(text)
    if not titles:
        raise InputError(f"expected a raw WikiText file, but {path} is empty.")
    return tuple(Article(title, tuple(own)) for title, own in zip(titles, texts, strict=True))
