"""Texts to look at."""

from identiformer.texts.corpus import Corpus, read_corpus
from identiformer.texts.example import Example, corpus_hash
from identiformer.texts.passage import PASSAGE
from identiformer.texts.token_types import FREQUENCY_BANDS, TOKEN_TYPES, frequency_bands, token_types

__all__ = [
    "FREQUENCY_BANDS",
    "PASSAGE",
    "TOKEN_TYPES",
    "Corpus",
    "Example",
    "corpus_hash",
    "frequency_bands",
    "read_corpus",
    "token_types",
]
