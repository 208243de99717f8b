"""What a page knows of a text before it makes any map: tokens, and how far each head may be read."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from identiformer.measures import effective_attention
from identiformer.tokens import Tokens
from identiformer.trace import Trace


def summarize(trace: Trace, *, kind: str | None = None, result: xr.Dataset | None = None) -> dict[str, Any]:
    """Tokens and per-head numbers as plain data, ready for JSON.

    result: that of `effective_attention`, where it is at hand.
    """
    own = trace.stack(kind)
    if result is None:
        result = effective_attention(trace, kind=kind, matrices=False, spectrum=False)
    numbers = {name: plain(result[name].values) for name in ("null_mass", "correlation") if name in result}
    texts = (trace.source.get("text"), trace.source.get("pair"))
    return {
        "model": trace.source["model"],
        "kind": own.kind,
        "kinds": [each.kind for each in trace.stacks],
        "text": texts[0],
        "pair": texts[1],
        "queries": _tokens(own.queries, texts),
        "keys": None if own.keys is own.queries else _tokens(own.keys, texts),
        "layers": [int(layer) for layer in result["layer"].values],
        "heads": result.sizes["head"],
        "numbers": {**numbers, "nullity": result.nullity.max("query").values.tolist()},
        "certificates": [],
        "window": None,
        "first": _most_misleading(result),
    }


def _most_misleading(result: xr.Dataset) -> dict[str, int]:
    """The head to look at first: the one whose raw attention correlates least with the effective one."""
    if "correlation" not in result or bool(result.correlation.isnull().all()):
        return {"layer": int(result["layer"][0]), "head": int(result["head"][0])}
    place = result.correlation.argmin(["layer", "head"])
    return {str(name): int(result[name][index]) for name, index in place.items()}


def plain(table: np.ndarray) -> list[list[float | None]]:
    """Rounded to what is shown; NaN as null, since JSON has no NaN."""
    return [[None if np.isnan(value) else round(float(value), 4) for value in row] for row in table]


def _tokens(tokens: Tokens, texts: Sequence[str | None]) -> dict[str, Any]:
    words, word_texts = _words(tokens, texts)
    return {"texts": list(tokens.texts), "special": list(tokens.special), "words": words, "word_texts": word_texts}


def _words(tokens: Tokens, texts: Sequence[str | None]) -> tuple[list[int | None] | None, list[str]]:
    """The index of each token's word, and the text of each word, as the user wrote it where that is known."""
    if tokens.word_ids is None:
        return None, []
    indices: list[int | None] = [None] * len(tokens)
    word_texts = []
    for index, word in enumerate(tokens.words()):
        for position in word.positions:
            indices[position] = index
        text = texts[word.segment] if word.segment < len(texts) else None
        written = "" if text is None or word.span is None else text[slice(*word.span)].strip()
        word_texts.append(written or word.text)
    return indices, word_texts
