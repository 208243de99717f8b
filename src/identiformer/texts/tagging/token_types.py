"""What kind of token each one is: special, punctuation, the first or a later piece of a word, rare or frequent."""

import unicodedata
from collections.abc import Sequence

import numpy as np

TOKEN_TYPES = ("special", "punctuation", "first piece", "later piece")
FREQUENCY_BANDS = ("1", "2-10", "11-100", "more than 100")
_BAND_ENDS = (1, 10, 100)
WORD_START, CONTINUATION = "▁", "##"


def token_types(texts: Sequence[str], special: Sequence[bool]) -> np.ndarray:
    """The type of each token of a corpus, as an index into TOKEN_TYPES.

    Vocabularies mark either where a word begins (▁) or where it goes on (##); which one is told from the tokens.

    >>> [TOKEN_TYPES[kind] for kind in token_types(["[CLS]", "island", "##ers", "!"], [True, False, False, False])]
    ['special', 'first piece', 'later piece', 'punctuation']
    """
    marks_starts = any(text.startswith(WORD_START) for text in texts)
    kinds = np.empty(len(texts), dtype=np.int64)
    fresh = True  # a word begins here whatever the mark: after a special token or punctuation
    for place, (text, added) in enumerate(zip(texts, special, strict=True)):
        later = not fresh and not text.startswith(WORD_START) if marks_starts else text.startswith(CONTINUATION)
        kinds[place] = 0 if added else 1 if _is_punctuation(text) else 3 if later else 2
        fresh = kinds[place] < 2
    return kinds


def _is_punctuation(text: str) -> bool:
    bare = text.removeprefix(CONTINUATION).removeprefix(WORD_START)
    return bool(bare) and all(unicodedata.category(character)[0] in "PS" for character in bare)


def frequency_bands(ids: np.ndarray) -> np.ndarray:
    """How often each token's word piece stands in the corpus, as an index into FREQUENCY_BANDS."""
    _, places, counts = np.unique(ids, return_inverse=True, return_counts=True)
    return np.searchsorted(_BAND_ENDS, counts)[places]
