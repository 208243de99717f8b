"""Two consecutive spans of an article, cut to a length: what Figures 1 and 5 are drawn from."""

import random
from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

from identiformer.errors import InputError
from identiformer.texts.example import Example
from identiformer.texts.wikipedia.wikitext import Article

LONGEST = 128
NUMBER = 1000


@runtime_checkable
class Length(Protocol):
    """How many tokens the model gets for a text, or for two, special tokens included; `Model.length` is one."""

    def __call__(self, text: str, pair: str | None = None, /) -> int: ...


def segments(
    articles: Sequence[Article], length: Length, number: int = NUMBER, *, longest: int = LONGEST, seed: int = 0
) -> list[Example]:
    """Pairs of spans of at most `longest` tokens, [CLS] and [SEP] included, as Clark et al. (2019) made them.

    Sentences of an article are gathered until they fill a segment, or the article ends. Where the first span ends among
    them is drawn by chance; the second is the rest. While both are too long together, the longer one (the second, if they are
    equal) loses a word, from its beginning or its end by chance. Sentences that were cut off are not used again. The first
    `number` segments in the order of the articles are taken, and shuffled. A sentence alone has no second span: there the
    article is left, even where more of it follows.

    The steps and the order of drawing are those of their script, which seeds Python's generator with 0. One thing is not: they
    cut word pieces where this cuts words, for a text that begins within a word has other pieces. Three are not known: which
    articles they took, how those were split into sentences, and whether headings were among them.
    """
    if number < 1:
        raise InputError(f"expected at least one segment to make, got {number}.")
    chance = random.Random(seed)
    made: list[Example] = []
    for article in articles:
        for segment in _of_article(article, length, longest, chance):
            made.append(segment)
            if len(made) == number:
                chance.shuffle(made)
                return made
    raise InputError(
        f"expected articles for {number} segments of at most {longest} tokens, but these {len(articles)} give {len(made)}; "
        f"ask for fewer, or give more articles."
    )


def _of_article(article: Article, length: Length, longest: int, chance: random.Random) -> Iterator[Example]:
    gathered: list[str] = []
    for place, sentence in enumerate(article.sentences):
        gathered.append(sentence)
        if place < len(article.sentences) - 1 and not _full(gathered, length, longest):
            continue
        first = chance.randint(1, len(gathered) - 1) if len(gathered) > 1 else 1
        text, pair = _cut(" ".join(gathered[:first]), " ".join(gathered[first:]), length, longest, chance)
        if not text or not pair:
            return
        yield Example(text, pair)
        gathered = []


def _full(gathered: list[str], length: Length, longest: int) -> bool:
    if len(gathered) == 1:
        return length(gathered[0]) + 1 >= longest  # one more token would close a second span
    return length(" ".join(gathered[:-1]), gathered[-1]) >= longest


def _cut(text: str, pair: str, length: Length, longest: int, chance: random.Random) -> tuple[str, str]:
    """Both spans as long as fits; an empty one where nothing does."""
    if not pair:
        return text, pair
    spans = [text.split(" "), pair.split(" ")]
    sizes = [length(text), length(pair)]
    special = length(text, pair) - sum(sizes)  # two spans share special tokens, always as many
    while all(spans) and sum(sizes) + special > longest:
        longer = 0 if sizes[0] > sizes[1] else 1
        words = spans[longer]
        words.pop(0 if chance.random() < 0.5 else -1)
        sizes[longer] = length(" ".join(words))
    return " ".join(spans[0]), " ".join(spans[1])
