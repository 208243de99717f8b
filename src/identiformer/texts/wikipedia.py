"""Wikipedia articles from raw WikiText files, with the spacing of ordinary text, and pairs of consecutive spans of them."""

import os
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from identiformer.errors import InputError
from identiformer.texts.example import Example
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

LONGEST, NUMBER = 128, 1000
"""Tokens of a segment, and segments, unless others are chosen."""


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


def segments(
    articles: Sequence[Article], length: Callable[..., int], number: int = NUMBER, *, longest: int = LONGEST, seed: int = 0
) -> list[Example]:
    """Make pairs of consecutive spans of at most `longest` tokens, as Clark et al. (2019) did.

    Sentences of an article are collected until they fill a segment or the article ends. The boundary between the two spans is
    drawn at random among the sentences. While the pair is too long, its longer span (the second if they are equal) loses a word
    at its beginning or its end, at random. Sentences that were cut off are not used again. The first `number` segments in the
    order of the articles are shuffled. A single sentence cannot be split into two spans, and ends its article.

    Steps and the order of random draws follow the authors' script, which seeds Python's generator with 0, except that it cuts
    word pieces where this cuts words: a text that begins within a word has other pieces. Which articles they used, how those
    were split into sentences, and whether headings were included is not known.

    Parameters
    ----------
    articles : sequence of Article
        From `read_wikitext`.
    length : callable
        Number of tokens of a text or a pair, special tokens included; `model.length`.
    number : int
        How many segments to make.
    longest : int
        Largest number of tokens in a segment, [CLS] and [SEP] included.
    seed : int
        Seed of the random draws.

    Returns
    -------
    list of Example
        Pairs of spans.

    Examples
    --------
    >>> def length(text, pair=""):
    ...     return len(text.split()) + len(pair.split())
    >>> example, = segments([Article("Ferry", ("A ferry is a boat.", "It carries people."))], length, 1, longest=8)
    >>> example.text, example.pair
    ('A ferry is a boat.', 'It carries people.')
    """
    if number < 1:
        raise InputError(f"expected at least one segment to make, got {number}.")
    generator = random.Random(seed)
    made: list[Example] = []
    for article in articles:
        for segment in _segments_of(article, length, longest, generator):
            made.append(segment)
            if len(made) == number:
                generator.shuffle(made)
                return made
    raise InputError(
        f"expected articles for {number} segments of at most {longest} tokens, but these {len(articles)} yield {len(made)}; "
        f"make fewer, or add articles."
    )


def _segments_of(article: Article, length: Callable[..., int], longest: int, generator: random.Random) -> Iterator[Example]:
    collected: list[str] = []
    for index, sentence in enumerate(article.sentences):
        collected.append(sentence)
        if index < len(article.sentences) - 1 and not _fills(collected, length, longest):
            continue
        boundary = generator.randint(1, len(collected) - 1) if len(collected) > 1 else 1
        text, pair = _cut(" ".join(collected[:boundary]), " ".join(collected[boundary:]), length, longest, generator)
        if not text or not pair:
            return
        yield Example(text, pair)
        collected = []


def _fills(collected: list[str], length: Callable[..., int], longest: int) -> bool:
    if len(collected) == 1:
        return length(collected[0]) + 1 >= longest  # a second span adds at least one special token
    return length(" ".join(collected[:-1]), collected[-1]) >= longest


def _cut(text: str, pair: str, length: Callable[..., int], longest: int, generator: random.Random) -> tuple[str, str]:
    """Remove words until both spans fit; a span of which nothing fits becomes empty."""
    if not pair:
        return text, pair
    spans = [text.split(" "), pair.split(" ")]
    sizes = [length(text), length(pair)]
    special = length(text, pair) - sum(sizes)  # a pair shares special tokens, always the same number
    while all(spans) and sum(sizes) + special > longest:
        longer = 0 if sizes[0] > sizes[1] else 1
        words = spans[longer]
        words.pop(0 if generator.random() < 0.5 else -1)
        sizes[longer] = length(" ".join(words))
    return " ".join(spans[0]), " ".join(spans[1])
