"""What the page shows before it computes any map: tokens, and numbers about every head, of a text or of a corpus."""

from collections.abc import Mapping, Sequence
from typing import Any

import xarray as xr

from identiformer.measures import effective_attention
from identiformer.measures.attention.patterns import DOMINANT
from identiformer.measures.heads.heads import Heads
from identiformer.models import Picture
from identiformer.page.panels import image_panel
from identiformer.page.reading import SHOWN_DIGITS, reading_panel
from identiformer.readings.effective import head_width, rank_heads
from identiformer.readings.heads import (
    HEAD_CATEGORIES,
    determined_sentence,
    first_ambiguous,
    first_head,
    first_row,
)
from identiformer.readings.patterns import PHRASES, patterns_as_json
from identiformer.readings.reader import glance
from identiformer.readings.reading import Reading
from identiformer.tokens import Tokens
from identiformer.trace import RecordedLayer, Trace
from identiformer.typed_json import finite_or_null

TERMS = {
    **{f"{category} heads": f"the largest part of the head's weight {meaning}" for category, meaning in HEAD_CATEGORIES.items()},
    "category": "the largest part of a head's weight, which may be less than half of it: readable, mixed, noncontributing or "
    "undetermined",
    "raw": "the attention weights of the model: one distribution over keys per query",
    "contribution": "the share of what a head writes that comes from a key, a·⟨vH, o⟩/‖o‖²: signed, with sum 1 over a row",
    "own": "the self-contribution of a key's vector: the share that Hidden Token Attribution, by norms of derivatives, "
    "attributes to its own token",
    "attention sink": "a key that receives at least 10% of a row's weight, and whose contribution and share of the norms of "
    "what all keys write are at most a tenth of that",
    "certified interval": "every attention row with the same output, up to a relative change of 1e-4 (1e-2 in bfloat16), "
    "has its weight on this key within the interval; linear programming proves it",
    "alternative": "another attention row with the same output of the head",
    "patched run": "a run of the model with an alternative patched in; the control is a random change of the same size",
    "effective": "the component of a row that the head's output determines linearly. It does not show how much a weight matters",
    "null": "the component of a row that the head's output does not depend on: raw minus effective attention. It does not show "
    "how uncertain a weight is, because weights cannot be negative: certified intervals do",
    "null_mass": "share of a row's squared norm in the null component, averaged over rows. A large one does not make the "
    "row ambiguous, because weights cannot be negative",
    "correlation": "Pearson correlation of raw with effective attention, over all visible entries",
    "nullity": "dimensions of a row that the head's output does not depend on: visible keys minus the rank of their values",
    "readable": "the part of the weight that is certified, contributes to the output, and is attributed to its token",
    "contributing": "the part of the weight that contributes to what the head writes, and is certified where bounds are known",
    "certified": "share of the weight that every attention row with the same output has",
    "sink_share": "share of the weight on attention sinks",
    "certified_rows": "share of rows whose largest weight is certified to be the largest",
    "rank": "dimensions of a row that the head's output depends on",
    "null_space_share": "share of rows with a null space",
    "negative_share": "share of effective attention that is negative",
    "identified": "share of rows that the head's output determines",
    "identified_on_simplex": "share of rows that the head's output determines among attention distributions",
}
"""What each map, category and number means, in the words that page and reports use."""
CORPUS_NUMBERS = {
    "effective_attention": (
        "null_mass", "correlation", "nullity", "rank", "null_space_share", "negative_share",
        "raw_from_separators", "effective_from_separators", "raw_from_others", "effective_from_others",
    ),
    "attention_identifiability": ("identified", "identified_on_simplex"),
    "reading": ("readable", "contributing", "certified", "sink_share"),
}  # fmt: skip
"""The numbers per head that the page shows of each corpus measure."""


def summarize(
    trace: Trace, *, kind: str | None = None, reading: Reading | None = None, picture: Picture | None = None
) -> dict[str, Any]:
    """Tokens, numbers per head and the reading as plain data.

    `reading` is of the same text; without it heads are read before certification, if the trace has their weights. `picture` is
    the image of a vision model.
    """
    stack = trace.stack(kind)
    if reading is None and isinstance(stack.layers[0], RecordedLayer):
        reading = glance(Heads(trace, kind=kind))
    result = None if reading is None else reading.effective
    if result is None:
        result = effective_attention(trace, kind=kind, matrices=False, spectrum=False)
    numbers = {name: finite_or_null(result[name].values, SHOWN_DIGITS) for name in ("null_mass", "correlation") if name in result}
    layers, heads = [int(layer) for layer in result["layer"].values], result.sizes["head"]
    panel, first = None, {**_most_different(result), "why": ""}
    if reading is not None and isinstance(stack.layers[0], RecordedLayer):
        panel, first = reading_panel(reading, layers, heads), first_shown(reading.result, trace, kind)
        largest = reading.result.largest_certified.reindex(layer=layers, head=range(heads))
        if bool(largest.notnull().any()):
            numbers["certified_rows"] = finite_or_null(largest.values, SHOWN_DIGITS)
    patterns = None if reading is None else reading.patterns
    texts = (trace.source.get("text"), trace.source.get("pair"))
    nullity = result.nullity.values
    return {
        "model": trace.source["model"],
        "kind": stack.kind,
        "kinds": [stack.kind for stack in trace.stacks],
        "text": texts[0],
        "pair": texts[1],
        "queries": _tokens(stack.queries, texts),
        "keys": None if stack.keys is stack.queries else _tokens(stack.keys, texts),
        "layers": layers,
        "heads": heads,
        "numbers": {**numbers, "nullity": nullity.max(-1).tolist()},
        "patterns": None if patterns is None else {**patterns_as_json(patterns), "meanings": PHRASES, "dominant_share": DOMINANT},
        "determined": determined_sentence(len(stack.keys), head_width(trace, kind), nullity),
        "ambiguous_from": first_ambiguous(nullity) or None,
        "image": None if picture is None else image_panel(picture, stack.queries),
        "answer": None,
        "terms": TERMS,
        "certificates": [],
        "maps": [],
        "window": None,
        "reading": panel,
        "why": first.pop("why"),
        "first": first,
    }


def first_shown(numbers: xr.Dataset, trace: Trace, kind: str | None) -> dict[str, Any]:
    """The head and the row that have most to say, and why."""
    layer, head, why = first_head(numbers)
    return {"layer": layer, "head": head, "query": first_row(trace, layer, head, kind), "why": why}


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


def _most_different(result: xr.Dataset) -> dict[str, int]:
    """The head whose raw and effective attention differ most."""
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
