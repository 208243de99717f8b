"""Pairs of consecutive spans of Wikipedia articles, for Figures 1 and 5."""

import random
from collections.abc import Callable, Iterator, Sequence

from identiformer.errors import InputError
from identiformer.texts.example import Example
from identiformer.texts.wikitext import Article

LONGEST = 128
NUMBER = 1000


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
