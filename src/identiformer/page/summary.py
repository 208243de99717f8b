"""What the page shows before it computes any map: tokens, and numbers about every head, of a text or of a corpus."""

from collections.abc import Mapping, Sequence
from typing import Any

import xarray as xr

from identiformer.figures.reading import head_to_show
from identiformer.measures import effective_attention
from identiformer.readings import Reading
from identiformer.readings.inspection import rank_heads
from identiformer.tokens import Tokens
from identiformer.trace import Trace
from identiformer.typed_json import finite_or_null

SHOWN_DIGITS = 4
"""Decimal places of the numbers that the page shows."""

TERMS = {
    "raw": "the attention weights: one distribution over keys per query",
    "effective": "the component of A that the head's output depends on",
    "null": "A − A⊥, which does not change the head's output",
    "null_mass": "share of a row's squared norm in the null component, averaged over rows",
    "correlation": "Pearson correlation of raw with effective attention, over all visible entries",
    "nullity": "dimensions of a row that the head's output does not depend on: visible keys minus the rank of their values",
    "certified": "share of the weight that every attention with the same output has",
    "contributing": "share of the weight that contributes to what the head writes, and is certified if bounds were computed",
    "readable": "share of the weight that contributes and is about the token it points to",
    "sink_share": "share of the weight on attention sinks, which contribute little",
    "certified_rows": "share of four randomly chosen rows whose largest weight is certified to be the largest",
    "rank": "dimensions of a row that the head's output depends on",
    "null_space_share": "share of rows with a null space",
    "negative_share": "share of effective attention that is negative",
    "identified": "share of rows that the head's output determines",
    "identified_on_simplex": "share of rows that the head's output determines among attention distributions",
}
"""What each map and each number about a head means, in the words that page and reports use."""
CORPUS_NUMBERS = {
    "effective_attention": (
        "null_mass", "correlation", "nullity", "rank", "null_space_share", "negative_share",
        "raw_from_separators", "effective_from_separators", "raw_from_others", "effective_from_others",
    ),
    "attention_identifiability": ("identified", "identified_on_simplex"),
}  # fmt: skip
"""The numbers per head that the page shows of each corpus measure."""


def summarize(
    trace: Trace, *, kind: str | None = None, result: xr.Dataset | None = None, reading: Reading | None = None
) -> dict[str, Any]:
    """Tokens and numbers per head as plain data.

    `result` is the trace's `effective_attention`, if it is known already, and `reading` the reading of the same text.
    """
    stack = trace.stack(kind)
    if result is None:
        result = effective_attention(trace, kind=kind, matrices=False, spectrum=False)
    numbers = {name: finite_or_null(result[name].values, SHOWN_DIGITS) for name in ("null_mass", "correlation") if name in result}
    read = {} if reading is None else reading_numbers(reading, result["layer"].values.tolist(), result.sizes["head"])
    texts = (trace.source.get("text"), trace.source.get("pair"))
    return {
        "model": trace.source["model"],
        "kind": stack.kind,
        "kinds": [stack.kind for stack in trace.stacks],
        "text": texts[0],
        "pair": texts[1],
        "queries": _tokens(stack.queries, texts),
        "keys": None if stack.keys is stack.queries else _tokens(stack.keys, texts),
        "layers": [int(layer) for layer in result["layer"].values],
        "heads": result.sizes["head"],
        "numbers": {**read, **numbers, "nullity": result.nullity.max("query").values.tolist()},
        "terms": TERMS,
        "certificates": [],
        "window": None,
        "first": {**_first_head(result, reading), **({"color": next(iter(read))} if read else {})},
    }


def summarize_corpus(results: Mapping[str, xr.Dataset]) -> dict[str, Any] | None:
    """Numbers per head from the measures of a corpus run; None if no measure has any."""
    measured = {measure: results[measure] for measure in CORPUS_NUMBERS if measure in results}
    if not measured:
        return None
    numbers: dict[str, Any] = {}
    for measure, result in measured.items():
        numbers |= {name: finite_or_null(result[name].values, SHOWN_DIGITS) for name in CORPUS_NUMBERS[measure]}
        received = {which: result[f"{which}_received"] for which in ("raw", "effective") if f"{which}_received" in result}
        for which, per_kind in received.items():
            numbers |= {
                f"{which}_to_{kind}": finite_or_null(per_kind.sel(kind=kind).values, SHOWN_DIGITS)
                for kind in per_kind["kind"].values
            }
    result = next(iter(measured.values()))
    return {
        "model": result.attrs["model"],
        "corpus": result.attrs["corpus"],
        "layers": result["layer"].values.tolist(),
        "heads": result.sizes["head"],
        "numbers": numbers,
        "terms": TERMS,
    }


def reading_numbers(reading: Reading, layers: Sequence[int], heads: int) -> dict[str, Any]:
    """The shares of each head's weight that pass the tests that were made; null for heads that were not read."""
    result = reading.result
    known = {
        "readable": bool(result.self_contribution.notnull().all()),
        "contributing": True,
        "certified": reading.certified,
        "sink_share": True,
    }
    shares = result[[name for name in known if known[name]]].reindex(layer=list(layers), head=range(heads))
    return {name: finite_or_null(shares[name].values, SHOWN_DIGITS) for name in map(str, shares)}


def _first_head(result: xr.Dataset, reading: Reading | None) -> dict[str, int]:
    """The head to show first: the one that shows what a reading is, or whose raw and effective attention differ most."""
    if reading is not None:
        layer, head = head_to_show(reading.result)
        return {"layer": layer, "head": head}
    layer, head = (rank_heads(result) or [(int(result["layer"][0]), int(result["head"][0]))])[0]
    return {"layer": layer, "head": head}


def _tokens(tokens: Tokens, texts: Sequence[str | None]) -> dict[str, Any]:
    words, word_texts = _words(tokens, texts)
    return {"texts": list(tokens.texts), "special": list(tokens.special), "words": words, "word_texts": word_texts}


def _words(tokens: Tokens, texts: Sequence[str | None]) -> tuple[list[int | None] | None, list[str]]:
    """The index of each token's word, and the text of each word, as the user wrote it if that is known."""
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
