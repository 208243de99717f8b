"""Words that are too long for a tokenizer, and vanish into one unknown token."""

from typing import Any

from identiformer.trace import Tokens

LONGEST_WORD = 100
"""Characters of the longest word that WordPiece reads, unless its file says otherwise; no language has words as long."""


def loses_a_long_word(tokenizer: Any, tokens: Tokens, text: str, pair: str | None = None) -> bool:
    """Whether a word of the text was so long that the tokenizer put one unknown token in its place.

    A line of 200,000 letters then becomes three tokens, [CLS] [UNK] [SEP]: it fits into any model, yet nothing of it is left.
    """
    unknown = tokenizer.unk_token_id
    if unknown is None or unknown not in tokens.ids:
        return False
    backend = getattr(getattr(tokenizer, "backend_tokenizer", None), "model", None)
    longest = getattr(backend, "max_input_chars_per_word", LONGEST_WORD)
    if tokens.spans is None:
        return any(len(word) > longest for word in f"{text} {pair or ''}".split())
    return any(stop - start > longest for token, (start, stop) in zip(tokens.ids, tokens.spans, strict=True) if token == unknown)
