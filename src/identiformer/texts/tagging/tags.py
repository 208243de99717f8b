"""Parts of speech: the Penn tag of every token, as it is given or by NLTK's averaged perceptron tagger."""

import importlib.util
import re
from bisect import bisect_right
from functools import lru_cache
from operator import itemgetter
from typing import Any

from identiformer.errors import InputError, MissingPackageError
from identiformer.texts.example import Example
from identiformer.texts.tagging.penn_words import penn_words
from identiformer.trace import Tokens

PENN_TAGS = (
    "CC", "CD", "DT", "EX", "FW", "IN", "JJ", "JJR", "JJS", "LS", "MD", "NN", "NNP", "NNPS", "NNS", "PDT", "POS", "PRP", "PRP$",
    "RB", "RBR", "RBS", "RP", "SYM", "TO", "UH", "VB", "VBD", "VBG", "VBN", "VBP", "VBZ", "WDT", "WP", "WP$", "WRB",
    "#", "$", "``", "''", "(", ")", ",", ".", ":",
)  # fmt: skip
OTHER_TAG = "other"
"""What is neither part of a word nor a special token, such as a piece that is nothing but space."""
DATA = "averaged_perceptron_tagger_eng"
WORD = re.compile(r"\S+")


def penn_tags(
    tokens: Tokens, text: str, pair: str | None = None, tags: str | None = None, pair_tags: str | None = None
) -> list[str]:
    """For each token the tag of its word; special tokens are their own tag. Figs. 26-37.

    tags, pair_tags: of the words that spaces separate in each text, as in `Example`. They are taken as they are; NLTK tags a
        text that comes without.

    The tagger reads the words of the text as it was written, with its capitals, and each text of a pair alone. Words are those
    that the tokenizer splits a text into before it cuts them into pieces, save that clitics and quotation marks are written
    as the treebank has them. The paper used Stanford's tagger, so tags differ here and there.

    As labels of tokens: `token_attribution(model, text, group_by=penn_tags(model.tokens(text), text))`.
    """
    if tokens.spans is None or tokens.words is None:
        raise InputError(
            "this tokenizer does not say which characters a token stands for; use a fast one, or tag tokens yourself."
        )
    given = Example(text, pair, tags, pair_tags)
    answer = list(tokens.texts)
    for segment, (own, own_tags) in enumerate(((given.text, given.tags), (given.pair, given.pair_tags))):
        places = [
            place
            for place, word in enumerate(tokens.words)
            if word is not None and not tokens.special[place] and tokens.segments[place] == segment
        ]
        if own is None or not places:
            continue
        words = _words_by_nltk(tokens, own, places) if own_tags is None else _words_as_given(own, own_tags)
        for place in places:
            start, stop = tokens.spans[place]
            piece = own[start:stop]
            first = start + len(piece) - len(piece.lstrip())
            answer[place] = words[bisect_right(words, first, key=itemgetter(0)) - 1][1] if piece.strip() else OTHER_TAG
    return answer


def _words_as_given(text: str, tags: str) -> list[tuple[int, str]]:
    """Where each word begins, and its tag."""
    return [(word.start(), tag) for word, tag in zip(WORD.finditer(text), tags.split(), strict=True)]


def _words_by_nltk(tokens: Tokens, text: str, places: list[int]) -> list[tuple[int, str]]:
    """The same of the words that these tokens are pieces of."""
    assert tokens.words is not None
    assert tokens.spans is not None
    pieces: dict[int | None, list[tuple[int, int]]] = {}
    for place in places:
        pieces.setdefault(tokens.words[place], []).append(tokens.spans[place])
    words = penn_words(text, [(spans[0][0], spans[-1][1]) for spans in pieces.values()])
    found = load_tagger().tag([word for _, word in words])
    return [(start, tag) for ((start, _), _), (_, tag) in zip(words, found, strict=True)]


@lru_cache
def load_tagger() -> Any:
    """NLTK's tagger, read once; its data is looked for in the folders of the variable NLTK_DATA and in NLTK's own."""
    if importlib.util.find_spec("nltk") is None:
        raise MissingPackageError("tags of words need a package; run: pip install 'identiformer[tags]'")
    from nltk.tag.perceptron import PerceptronTagger

    try:
        return PerceptronTagger()
    except LookupError:
        raise InputError(
            f"expected the data of NLTK's tagger where NLTK looks for it, but there is none; run: python -m nltk.downloader "
            f"{DATA}, or name the folder that holds taggers/{DATA} in the variable NLTK_DATA."
        ) from None
