"""The largest part of each head's weight, in a word and in a sentence: readable, mixed, noncontributing or undetermined."""

from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr

from identiformer.equations.attention.contributions import contributions
from identiformer.measures.heads.example import head_to_show
from identiformer.measures.heads.statements import SINK_SHARE
from identiformer.trace import Trace

HEAD_CATEGORIES = {
    "readable": "passes every test",
    "mixed": "contributes, but is attributed to tokens other than the key",
    "noncontributing": "does not contribute to what the head writes",
    "undetermined": "could be on other keys, with the same output",
    "contributing": "contributes to what the head writes; to which tokens it is attributed is not computed yet",
}
"""The parts of a head's weight, and what that weight does. They are means over its rows: *undetermined* 1 - certified,
*noncontributing* certified - contributing, *mixed* contributing - readable, and *readable*. The largest part is the head's
category, and may be less than half; `contributing` is mixed and readable, where self-contributions are unknown."""


def head_categories(numbers: xr.Dataset) -> xr.DataArray:
    """The category of each head, the largest part of its weight; empty where it is unknown.

    Parameters
    ----------
    numbers : xarray.Dataset
        Result of `attention_reading`, or its `certified`, `contributing` and `readable` alone.

    Returns
    -------
    xarray.DataArray
        Over (layer, head): one of HEAD_CATEGORIES.

    Examples
    --------
    >>> shares = {"certified": 0.9, "contributing": 0.3, "readable": 0.2}
    >>> numbers = xr.Dataset({name: (("layer", "head"), [[share]]) for name, share in shares.items()})
    >>> head_categories(numbers).item()
    'noncontributing'
    """
    parts = head_parts(numbers)
    names = np.array([*parts, ""])
    stacked = np.stack([part.values for part in parts.values()])
    unknown = np.isnan(numbers.contributing.values)
    largest = np.where(unknown, len(parts), np.nan_to_num(stacked, nan=-1).argmax(0))
    return xr.DataArray(names[largest], dims=numbers.contributing.dims)


def categories_sentence(numbers: xr.Dataset) -> str:
    """How many heads are of which category, what it means, and how large that part of their weight is."""
    names, parts = head_categories(numbers).values, head_parts(numbers)
    listed = []
    for name, meaning in HEAD_CATEGORIES.items():
        shares = parts[name].values[names == name]
        if shares.size:
            size = f"{shares.mean():.0%} of it on average, over half in {(shares > 0.5).sum()}"
            listed.append(f"{name} in {shares.size} ({meaning}: {size})")
    return f"Of the weight of each of the {names.size} heads, the largest part is {', '.join(listed)}." if listed else ""


def head_parts(numbers: xr.Dataset) -> dict[str, xr.DataArray]:
    """The parts of each head's weight by category: shares that sum to 1, NaN where a part is unknown."""
    certified, contributing, readable = (numbers[name] for name in ("certified", "contributing", "readable"))
    known = readable.notnull()
    return {
        "readable": readable,
        "mixed": contributing - readable,
        "noncontributing": certified - contributing,
        "undetermined": 1 - certified,
        "contributing": contributing.where(~known),
    }


def head_sentences(numbers: xr.Dataset, key_tokens: Sequence[str], certified: np.ndarray) -> list[list[str]]:
    """The largest part of each head's weight, by layer and head, from an `attention_reading`; empty for heads that were not read.

    `certified` says, over (layer, head), of which heads bounds were computed.
    """
    names = ("contributing", "output_share", "top_weight", "top_contribution", "sink_share")
    facts = {name: numbers[name].values for name in names}
    facts |= {name: part.values for name, part in head_parts(numbers).items() if name != "contributing"}
    keys = {name: numbers[name].values for name in ("top_key", "sink_key")}
    categories = head_categories(numbers).values
    sentences = [["" for _ in row] for row in categories]
    for at in np.ndindex(categories.shape):
        top, sink = (int(of_head[at]) for of_head in keys.values())
        if top >= 0:
            of_head = {name: float(values[at]) for name, values in facts.items()}
            sentence = _head_sentence(str(categories[at]), key_tokens[top], of_head, top == sink)
            sentences[at[0]][at[1]] = sentence if certified[at] else f"before certification, {sentence}"
    return sentences


def _head_sentence(category: str, key_token: str, numbers: Mapping[str, float], on_sink: bool) -> str:
    """The largest part of one head's weight; `key_token` receives most, and is its largest sink if `on_sink`."""
    if not category:
        return "its output is zero in every row, so no weight contributes to it."
    sink = ", an attention sink," if on_sink and numbers["sink_share"] >= SINK_SHARE else ""
    return (
        f"{category}. The largest part of its weight, {numbers[category]:.0%}, {HEAD_CATEGORIES[category]}. ‘{key_token}’{sink} "
        f"receives {numbers['top_weight']:.0%} of its weight and contributes {_percent(numbers['top_contribution'])} of what it "
        f"writes. It writes {_percent(numbers['output_share'])} of its layer's output."
    )


def _percent(share: float) -> str:
    """A share without a minus before zero."""
    return f"{round(share, 2) + 0:.0%}"


def first_head(numbers: xr.Dataset) -> tuple[int, int, str]:
    """The layer and head that have most to say, by `head_to_show`, and why."""
    layer, head = head_to_show(numbers)
    share = float(numbers.sel(layer=layer, head=head).sink_share)
    return layer, head, f"(Shown first as an example{f': {share:.0%} of its weight is on attention sinks' if share > 0 else ''}.)"


def first_row(trace: Trace, layer: int, head: int, kind: str | None = None) -> int:
    """The row of a head that has most to say: its weight is divided between keys that contribute and keys that do not.

    The largest c·(1 - c), with c the contributing share of the row; of special tokens only if there are no others, and of rows
    that see at least half of the keys, since the first rows of a decoder have little choice.
    """
    one = trace.layer(layer, kind).recorded().head(head)
    weights, projection = one.weights.double(), one.projection
    of_head = None if projection is None else projection[None].double()
    shares = contributions(weights[None], one.values.double()[None], of_head)[0]
    contributing = weights.minimum(shares.clamp(min=0)).sum(-1).nan_to_num()
    seen = one.visible.dense().sum(-1).numpy()
    ordinary = ~np.array(trace.stack(kind).queries.special) & (2 * seen >= seen.max())
    return int(np.where(ordinary if ordinary.any() else True, contributing * (1 - contributing), -1).argmax())


def determined_sentence(tokens: int, width: int, nullity: np.ndarray) -> str:
    """Whether the outputs of heads determine their weights; `nullity` is that of each row, over (… query)."""
    ambiguous = (nullity > 0).reshape(-1, nullity.shape[-1])
    in_some_row, from_row = ambiguous.any(1), first_ambiguous(nullity)
    if not in_some_row.any():
        return (
            f"With {tokens} tokens and heads {width} wide, the output of a head determines every weight: raw attention equals "
            "effective attention, and no alternatives exist."
        )
    if from_row is None:
        return (
            f"With {tokens} tokens and heads {width} wide, the outputs of {(~in_some_row).sum()} of {len(ambiguous)} heads "
            "determine every weight. The others do not in some rows, because the values of the keys are linearly dependent."
        )
    if from_row == 0:
        return f"{tokens} tokens are more than the {width} dimensions of a head's output, so it does not determine every weight."
    earlier = int(ambiguous.any(0).argmax())
    return (
        f"{tokens} tokens. From row {from_row} on, a query sees more keys than the {width} dimensions of a head's output, "
        "so it does not determine every weight."
        + (
            f" In some heads that begins at row {earlier}, because the values of keys are linearly dependent."
            if earlier < from_row
            else ""
        )
    )


def first_ambiguous(nullity: np.ndarray) -> int | None:
    """The row from which on every head has a null space; None if there is none. `nullity` is over (… query)."""
    rows = nullity.shape[-1]
    determined = np.flatnonzero((nullity == 0).reshape(-1, rows).any(0))
    start = int(determined[-1]) + 1 if len(determined) else 0
    return start if start < rows else None
