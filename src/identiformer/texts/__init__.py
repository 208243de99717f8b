"""Texts: reading corpora in many formats, Wikipedia segments, and labels of tokens."""

from identiformer.texts.corpus import BLOCK, Survey, read_corpus, survey_corpus
from identiformer.texts.example import PASSAGE, Example, corpus_hash
from identiformer.texts.readers.formats import Columns
from identiformer.texts.readers.glue import Labeled, read_labeled
from identiformer.texts.readers.sources import Corpus, open_source
from identiformer.texts.tagging import FREQUENCY_BANDS, TOKEN_TYPES, frequency_bands, penn_tags, token_types
from identiformer.texts.wikipedia import Article, read_wikitext, segments

__all__ = [
    "BLOCK",
    "FREQUENCY_BANDS",
    "PASSAGE",
    "TOKEN_TYPES",
    "Article",
    "Columns",
    "Corpus",
    "Example",
    "Labeled",
    "Survey",
    "corpus_hash",
    "frequency_bands",
    "open_source",
    "penn_tags",
    "read_corpus",
    "read_labeled",
    "read_wikitext",
    "segments",
    "survey_corpus",
    "token_types",
]
