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
from identiformer.tokens import Tokens

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
    if tokens.spans is None or tokens.word_ids is None:
        raise InputError(
            "this tokenizer does not report which characters a token covers; use a fast one, or tag the tokens yourself."
        )
    example = Example(text, pair, tags, pair_tags)
    token_tags = list(tokens.texts)
    for segment, (own, own_tags) in enumerate(((example.text, example.tags), (example.pair, example.pair_tags))):
        pieces = [
            [position for position in word.positions if not tokens.special[position]]
            for word in tokens.words()
            if word.segment == segment
        ]
        spans = [[tokens.spans[position] for position in positions] for positions in pieces if positions]
        if own is None or not spans:
            continue
        words = _words_by_nltk(own, spans) if own_tags is None else _words_as_given(own, own_tags)
        for position in (position for positions in pieces for position in positions):
            start, stop = tokens.spans[position]
            piece = own[start:stop]
            first = start + len(piece) - len(piece.lstrip())
            token_tags[position] = words[bisect_right(words, first, key=itemgetter(0)) - 1][1] if piece.strip() else OTHER_TAG
    return token_tags


def _words_as_given(text: str, tags: str) -> list[tuple[int, str]]:
    """Where each word begins, and its tag."""
    return [(word.start(), tag) for word, tag in zip(WORD.finditer(text), tags.split(), strict=True)]


def _words_by_nltk(text: str, spans: list[list[tuple[int, int]]]) -> list[tuple[int, str]]:
    """The same for words whose tokens cover these characters."""
    words = penn_words(text, [(pieces[0][0], pieces[-1][1]) for pieces in spans])
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
