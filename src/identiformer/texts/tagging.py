"""Labels of tokens: Penn Treebank tags of their words, their types, and how frequent they are."""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any

import numpy as np

from identiformer.errors import InputError, require_package
from identiformer.texts.example import Example, Span
from identiformer.tokens import Tokens

PENN_TAGS = (
    "CC", "CD", "DT", "EX", "FW", "IN", "JJ", "JJR", "JJS", "LS", "MD", "NN", "NNP", "NNPS", "NNS", "PDT", "POS", "PRP", "PRP$",
    "RB", "RBR", "RBS", "RP", "SYM", "TO", "UH", "VB", "VBD", "VBG", "VBN", "VBP", "VBZ", "WDT", "WP", "WP$", "WRB",
    "#", "$", "``", "''", "(", ")", ",", ".", ":",
)  # fmt: skip
OTHER_TAG = "other"
"""Tag of a token that is neither part of a word nor special, such as a piece that consists of spaces."""
TAGGER_DATA = "averaged_perceptron_tagger_eng"
WORD = re.compile(r"\S+")
CLITIC = re.compile(r"n['’]t\b|['’](?:s|re|ve|ll|d|m)\b", re.IGNORECASE)
TREEBANK_FORMS = {"’": "'", "–": "--", "—": "--", "“": "``", "”": "''"}
"""Punctuation as the treebank, and so the tagger, writes it."""

TOKEN_TYPES = ("special", "punctuation", "first piece", "later piece")
FREQUENCY_BANDS = ("1", "2-10", "11-100", "more than 100")
_BAND_ENDS = (1, 10, 100)
WORD_START, CONTINUATION = "▁", "##"


def penn_tags(
    tokens: Tokens, text: str, pair: str | None = None, tags: str | None = None, pair_tags: str | None = None
) -> list[str]:
    """Label each token with the Penn Treebank tag of its word; special tokens keep their own text as label (Figs. 26-37).

    NLTK's averaged perceptron tagger reads the words of each text as written, capitals included. Words are those of the
    tokenizer before it splits them into pieces, except that clitics and quotation marks follow the treebank. The paper used
    Stanford's tagger, so some tags differ.

    Parameters
    ----------
    tokens : Tokens
        The tokens of the text or pair, `model.tokens(text, pair)`.
    text, pair : str
        The text or texts that were tokenized.
    tags, pair_tags : str, optional
        Known tags of the words of each text, separated by spaces as in `Example`; they are used instead of the tagger's.

    Returns
    -------
    list of str
        One label per token, suitable as `group_by` of `token_attribution`.

    Examples
    --------
    >>> tokens = Tokens(("[CLS]", "boats", "sa", "##il"), (0, 1, 2, 3), (True, False, False, False), (0, 0, 0, 0),
    ...                 (None, 0, 1, 1), ((0, 0), (0, 5), (6, 8), (8, 10)))
    >>> penn_tags(tokens, "Boats sail", tags="NNS VBP")
    ['[CLS]', 'NNS', 'VBP', 'VBP']
    """
    spans = tokens.spans
    if spans is None or tokens.word_ids is None:
        raise InputError("this tokenizer does not report the characters of a token; use a fast one, or tag the tokens yourself.")
    example = Example(text, pair, tags, pair_tags)
    labels = list(tokens.texts)
    for segment, (content, known_tags) in enumerate(((example.text, example.tags), (example.pair, example.pair_tags))):
        positions = [word.positions for word in tokens.words() if word.segment == segment]
        words = [pieces for word in positions if (pieces := [index for index in word if not tokens.special[index]])]
        if content is None or not words:
            continue
        if known_tags is None:
            starts_and_tags = _tag_words(content, [(spans[word[0]][0], spans[word[-1]][1]) for word in words])
        else:
            starts = (word.start() for word in WORD.finditer(content))
            starts_and_tags = list(zip(starts, known_tags.split(), strict=True))
        for position in (position for word in words for position in word):
            start, stop = spans[position]
            piece = content[start:stop]
            first = start + len(piece) - len(piece.lstrip())
            index = bisect_right(starts_and_tags, first, key=itemgetter(0)) - 1
            labels[position] = starts_and_tags[index][1] if piece.strip() else OTHER_TAG
    return labels


def _tag_words(text: str, spans: Sequence[Span]) -> list[tuple[int, str]]:
    """The first character and the tag of each word, by NLTK's tagger."""
    words = penn_words(text, spans)
    tagged = load_tagger().tag([word for _, word in words])
    return [(start, tag) for ((start, _), _), (_, tag) in zip(words, tagged, strict=True)]


@lru_cache
def load_tagger() -> Any:
    """Load NLTK's tagger once; NLTK looks for its data in the folders of the variable NLTK_DATA and in its own."""
    require_package("nltk", "tags", "tags of words need a package")
    from nltk.tag.perceptron import PerceptronTagger

    try:
        return PerceptronTagger()
    except LookupError:
        raise InputError(
            f"expected the data of NLTK's tagger where NLTK looks for it, but there is none; run: python -m nltk.downloader "
            f"{TAGGER_DATA}, or set the variable NLTK_DATA to the folder that contains taggers/{TAGGER_DATA}."
        ) from None


def penn_words(text: str, words: Iterable[Span]) -> list[tuple[Span, str]]:
    """Split and spell a tokenizer's words as the Penn Treebank does; return the span and spelling of each.

    A clitic is a word of its own, whatever pieces a tokenizer makes of it: do + n't for don + ' + t, company + 's. Straight
    quotation marks open and close in turn.

    >>> [word for _, word in penn_words("I don't.", [(0, 1), (2, 5), (5, 6), (6, 7), (7, 8)])]
    ['I', 'do', "n't", '.']
    """
    spans = {_stripped(text, span) for span in words}
    end = max((stop for _, stop in spans), default=0)
    clitics = [match.span() for match in CLITIC.finditer(text, 0, end)]
    for first, last in clitics:
        spans = {(start, min(stop, first) if start < first else stop) for start, stop in spans if not first <= start < last}
    spelled: list[tuple[Span, str]] = []
    quotes = 0
    for span in sorted({*spans, *clitics}):
        word = text[slice(*span)]
        if word == '"':
            word = ("``", "''")[quotes % 2]
            quotes += 1
        if word:
            spelled.append((span, "".join(TREEBANK_FORMS.get(character, character) for character in word)))
    return spelled


def _stripped(text: str, span: Span) -> Span:
    """The span without the space that some tokenizers include in the word after it."""
    word = text[slice(*span)]
    return span[0] + len(word) - len(word.lstrip()), span[1] - len(word) + len(word.rstrip())


def token_types(texts: Sequence[str], special: Sequence[bool]) -> np.ndarray:
    """Classify each token of a corpus; returns indices into TOKEN_TYPES.

    Vocabularies mark either the beginning of a word (▁) or its continuation (##); the tokens show which.

    >>> [TOKEN_TYPES[index] for index in token_types(["[CLS]", "island", "##ers", "!"], [True, False, False, False])]
    ['special', 'first piece', 'later piece', 'punctuation']
    """
    marks_starts = any(text.startswith(WORD_START) for text in texts)
    types = np.empty(len(texts), dtype=np.int64)
    starts_word = True  # after a special token or punctuation a word begins, marked or not
    for position, (text, is_special) in enumerate(zip(texts, special, strict=True)):
        later = not starts_word and not text.startswith(WORD_START) if marks_starts else text.startswith(CONTINUATION)
        types[position] = 0 if is_special else 1 if _is_punctuation(text) else 3 if later else 2
        starts_word = types[position] < 2
    return types


def _is_punctuation(text: str) -> bool:
    bare = text.removeprefix(CONTINUATION).removeprefix(WORD_START)
    return bool(bare) and all(unicodedata.category(character)[0] in "PS" for character in bare)


def frequency_bands(ids: np.ndarray) -> np.ndarray:
    """Classify each token by how often its id occurs in the corpus; returns indices into FREQUENCY_BANDS."""
    _, inverse, counts = np.unique(ids, return_inverse=True, return_counts=True)
    return np.searchsorted(_BAND_ENDS, counts)[inverse]
