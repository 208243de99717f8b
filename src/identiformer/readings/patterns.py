"""Which patterns the heads of a text follow, in a sentence."""

from typing import Any

import xarray as xr

from identiformer.measures.attention.patterns import DOMINANT, NO_PATTERN
from identiformer.typed_json import finite_or_null

PHRASES = {
    "peak": "to one key",
    "previous": "to the previous token",
    "next": "to the next token",
    "self": "to the token itself",
    "induction": "to what followed the same token before (induction)",
    "separator": "to special tokens and punctuation (separator)",
    "broad": "broadly",
}


def pattern_sentence(patterns: xr.Dataset) -> str:
    """How many heads follow each pattern, from `attention_patterns`.

    >>> dominant = xr.DataArray([["peak", "peak", "none"]], dims=("layer", "head"))
    >>> pattern_sentence(xr.Dataset({"dominant": dominant}))
    'Of 3 heads, 2 attend to one key, each with at least 40% of its weight; 1 follows no pattern.'
    """
    dominant = patterns.dominant.values.ravel().tolist()
    counts = {pattern: dominant.count(pattern) for pattern in PHRASES}
    parts = [f"{count} {phrase}" for pattern, phrase in PHRASES.items() if (count := counts[pattern])]
    if parts:
        number, _, rest = parts[0].partition(" ")
        parts[0] = f"{number} {'attends' if number == '1' else 'attend'} {rest}"
        parts.append(f"each with at least {DOMINANT:.0%} of its weight")
    without = dominant.count(NO_PATTERN)
    others = [f"{without} {'follows' if without == 1 else 'follow'} no pattern"] if without else []
    return f"Of {len(dominant)} heads, {'; '.join([*([', '.join(parts)] if parts else []), *others])}."


def patterns_as_json(patterns: xr.Dataset) -> dict[str, Any]:
    """Shares by pattern, layer and head, and the dominant pattern of each head."""
    shares = {str(name): finite_or_null(patterns.share.sel(pattern=name).values, 4) for name in patterns["pattern"].values}
    return {"dominant": patterns.dominant.values.tolist(), "shares": shares, "sentence": pattern_sentence(patterns)}
