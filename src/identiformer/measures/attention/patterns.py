"""Which pattern each head follows: peak, previous, next, self, induction, separator or broad."""

import unicodedata

import numpy as np
import torch
import xarray as xr

from identiformer.equations.attention.patterns import PATTERNS, pattern_shares
from identiformer.results import make_result
from identiformer.tokens import Tokens
from identiformer.trace import AttentionStack, RecordedLayer, Trace

DOMINANT = 0.4
"""A head follows a pattern if at least this share of its weight does."""
NO_PATTERN = "none"
WORD_MARKS = "▁ĠĊ#"
"""What tokenizers put before or into a token to mark spaces, line ends and pieces of words."""


def attention_patterns(trace: Trace, *, kind: str | None = None) -> xr.Dataset:
    """The share of each head's weight that follows each pattern, and the dominant pattern.

    Each share is a mean over the rows that can follow the pattern and see at least two keys: of the weight on the one key that
    receives most over all rows (peak); on the previous token, the next one or the token itself; on the token after an earlier
    occurrence of the query's token (induction); on other special tokens and punctuation (separator); or of Σ_j min(a_ij, 1/n_i),
    the weight shared with uniform attention to the n_i visible keys (broad). Weights alone do not show whether that
    key contributes; `attention_reading` measures that.

    Parameters
    ----------
    trace : Trace
        With recorded weights.
    kind : str, optional
        Attention type; the first of the trace by default.

    Returns
    -------
    xarray.Dataset
        `share` over (pattern, layer, head), NaN where no row can follow a pattern; `dominant` over (layer, head), the pattern
        with the largest share, or "none" if no share is 0.4 or more.

    Examples
    --------
    >>> import identiformer as idf
    >>> trace = idf.load("minilm").trace("He said that the pie was his, and the pie was good.")
    >>> patterns = idf.attention_patterns(trace)
    >>> patterns["pattern"].values.tolist()
    ['peak', 'previous', 'next', 'self', 'induction', 'separator', 'broad']
    >>> str(patterns.dominant.sel(layer=1, head=2).values)
    'previous'
    """
    stack = trace.stack(kind)
    shares = np.stack([_layer_shares(layer.recorded(), stack) for layer in stack.layers], 1)
    largest = np.nan_to_num(shares).max(0)
    dominant = np.where(largest < DOMINANT, NO_PATTERN, np.array(PATTERNS)[np.nan_to_num(shares).argmax(0)])
    coordinates = {
        "pattern": list(PATTERNS),
        "layer": [layer.number for layer in stack.layers],
        "head": np.arange(shares.shape[-1]),
    }
    arrays, settings = {"share": shares, "dominant": dominant}, {"kind": stack.kind, "dominant": DOMINANT}
    return make_result("attention_patterns", arrays, coordinates, trace.source, settings)


def _layer_shares(record: RecordedLayer, stack: AttentionStack) -> np.ndarray:
    """(pattern head)."""
    shares = pattern_shares(
        record.weights.float(),
        record.visible,
        separators=torch.tensor(separators(stack.keys)),
        ids=torch.tensor(stack.keys.ids) if stack.keys is stack.queries else None,
    )
    return torch.stack(shares).numpy(force=True)


def separators(tokens: Tokens) -> list[bool]:
    """Which tokens are special, or punctuation alone."""
    return [special or _is_punctuation(text) for text, special in zip(tokens.texts, tokens.special, strict=True)]


def _is_punctuation(text: str) -> bool:
    characters = text.lstrip(WORD_MARKS) or text
    return all(unicodedata.category(character).startswith("P") for character in characters)
