"""What most of each head's weight is, in a word and in a sentence: readable, mixed, sink or undetermined."""

from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr

from identiformer.equations.attention.contributions import contributions
from identiformer.equations.attention.heads import group_of
from identiformer.figures.reading import head_to_show
from identiformer.measures.attention.reading import SINK_SHARE, attention_reading
from identiformer.trace import Trace

HEAD_CATEGORIES = {
    "readable": "most of the head's weight is certified, contributes to its output, and is about the token it points to",
    "mixed": "most of the head's weight is certified and contributes, but carries other tokens' content: the vectors that it "
    "points to are mixed",
    "sink": "most of the head's weight is certified but does not contribute to its output: it is on attention sinks, or on keys "
    "that cancel each other",
    "undetermined": "most of the head's weight is not certified: other attention, with the same output, does without it",
    "contributing": "most of the head's weight contributes to its output; whether it is about the token it points to, or mixed, "
    "is not computed yet",
}
"""The categories of heads and what they mean. A head's weight has four parts, means over its rows: *undetermined*
1 - certified, *sink* certified - contributing, *mixed* contributing - readable, and *readable*. The largest part is the head's
category; `contributing` is mixed or readable, where own content is unknown."""
WORDS = {"sink": "mostly sink"}
"""Categories that are not an adjective."""
MEANINGS = {
    "readable": "most weight passes every test",
    "mixed": "most weight contributes, but carries other tokens' content",
    "sink": "most weight does not contribute",
    "undetermined": "most weight could be on other keys, with the same output",
    "contributing": "most weight contributes",
}
"""The categories in a few words."""
SHARES = ("certified", "contributing", "readable", "output_share", "sink_share")


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
    'sink'
    """
    parts = head_parts(numbers)
    names = np.array([*parts, ""])
    stacked = np.stack([part.values for part in parts.values()])
    unknown = np.isnan(numbers.contributing.values)
    largest = np.where(unknown, len(parts), np.nan_to_num(stacked, nan=-1).argmax(0))
    return xr.DataArray(names[largest], dims=numbers.contributing.dims)


def categories_sentence(numbers: xr.Dataset) -> str:
    """How many heads are of which category, and what it means."""
    names = head_categories(numbers).values.ravel().tolist()
    counts = {name: names.count(name) for name in HEAD_CATEGORIES if name in names}
    listed = [
        f"{count} {'is' if count == 1 else 'are'} {WORDS.get(name, name)} ({MEANINGS[name]})" for name, count in counts.items()
    ]
    return f"Of the {len(names)} heads, {', '.join(listed)}." if listed else ""


def head_parts(numbers: xr.Dataset) -> dict[str, xr.DataArray]:
    """The parts of each head's weight by category: shares that sum to 1, NaN where a part is unknown."""
    certified, contributing, readable = (numbers[name] for name in SHARES[:3])
    known = readable.notnull()
    return {
        "readable": readable,
        "mixed": contributing - readable,
        "sink": certified - contributing,
        "undetermined": 1 - certified,
        "contributing": contributing.where(~known),
    }


def summarize_heads(result: xr.Dataset) -> xr.Dataset:
    """The numbers about each head that its sentence needs, from an `attention_reading`, without any map.

    Over (layer, head): the shares of its weight, `sink_key`, and `top_key`, the key that receives most weight, with the means
    over rows of its weight and contribution. Over (layer, head, key): `contributing_by_key`, the mean share of the weight that is
    on the key and contributes; its sum is `contributing`, and weighted by self-contributions it is `readable`.
    """
    received = result.weight.mean("query")
    top_key = received.argmax("key")
    hidden = (result.weight == 0) & result.low.isnull()
    by_key = result.contributing_weight.where(~hidden, 0.0) / result.weight.sum("key")
    summary = result[[*SHARES, "sink_key", "self_contribution"]].assign(
        top_key=top_key,
        top_weight=received.isel(key=top_key),
        top_contribution=result.contribution.mean("query").isel(key=top_key),
        contributing_by_key=by_key.mean("query"),
    )
    others = [name for name in summary.coords if name not in ("layer", "head", "key")]
    return summary.drop_vars(others).assign_coords(query=result["query"].values)


def read_heads(trace: Trace, kind: str | None = None) -> xr.Dataset:
    """`summarize_heads` of a trace before certification, one layer at a time, since the maps of a long text take gigabytes."""
    layers = (attention_reading(trace, layers=layer.number, certify=False, kind=kind) for layer in trace.stack(kind).layers)
    return xr.concat([summarize_heads(layer) for layer in layers], "layer", combine_attrs="override")


def head_sentences(numbers: xr.Dataset, key_tokens: Sequence[str], certified: np.ndarray) -> list[list[str]]:
    """What most of each head's weight is, by layer and head, from `summarize_heads`; empty for heads that were not read.

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
    """What most of one head's weight is; `key_token` receives most, and is its largest sink if `on_sink`."""
    if not category:
        return "its output is zero in every row, so no weight contributes to it."
    key = (
        f"‘{key_token}’ receives {numbers['top_weight']:.0%} of its weight and contributes "
        f"{_percent(numbers['top_contribution'])} of what it writes"
    )
    openings: Mapping[str, str] = {
        "readable": f"readable. {numbers['readable']:.0%} of its weight passes every test",
        "mixed": f"mixed. {numbers['contributing']:.0%} of its weight contributes, mostly content from other tokens",
        "contributing": f"contributing. {numbers['contributing']:.0%} of its weight contributes to what it writes",
        "undetermined": f"undetermined. Over all rows, {numbers['undetermined']:.0%} of its weight could be on other keys, with "
        "the same output",
        "sink": f"mostly a sink on ‘{key_token}’. {numbers['sink']:.0%} of its weight does not contribute"
        if on_sink and numbers["sink_share"] >= SINK_SHARE
        else f"mostly sink. {numbers['sink']:.0%} of its weight does not contribute",
    }
    return f"{openings[category]}; {key}. It writes {_percent(numbers['output_share'])} of its layer's output."


def _percent(share: float) -> str:
    """A share without a minus before zero."""
    return f"{round(share, 2) + 0:.0%}"


def first_head(numbers: xr.Dataset) -> tuple[int, int, str]:
    """The layer and head that have most to say, by `head_to_show`, and why."""
    layer, head = head_to_show(numbers)
    sink = float(numbers.sel(layer=layer, head=head).sink_share) > 0
    return layer, head, f"(Shown first: it writes much of its layer's output{', and attends to a sink' if sink else ''}.)"


def first_row(trace: Trace, layer: int, head: int, kind: str | None = None) -> int:
    """The row of a head that has most to say: its weight is divided between keys that contribute and keys that do not.

    The largest c·(1 - c), with c the contributing share of the row; of special tokens only if there are no others, and of rows
    that see at least half of the keys, since the first rows of a decoder have little choice.
    """
    record = trace.layer(layer, kind).recorded()
    group = group_of(head, record.heads, len(record.values))
    projection = None if record.projection is None else record.projection[head : head + 1].double()
    weights = record.weights[head].double()
    shares = contributions(weights[None], record.values[group].double()[None], projection)[0]
    contributing = weights.minimum(shares.clamp(min=0)).sum(-1).nan_to_num()
    seen = record.visible.dense().sum(-1).numpy()
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
