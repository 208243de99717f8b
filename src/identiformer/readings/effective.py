"""Effective attention in words: null spaces, and the heads in which raw and effective attention differ most."""

from typing import Any

import numpy as np
import xarray as xr

from identiformer.measures.indices import Indices, select_indices
from identiformer.trace import RecordedLayer, Trace
from identiformer.typed_json import finite_or_null

TOP_TOKENS = 3
SHOWN = 3
"""How many heads are described."""


def effective_sentences(result: xr.Dataset, width: int, layers: Indices | None = None, heads: Indices | None = None) -> list[str]:
    """How many heads have a null space, and the head whose raw and effective attention differ most.

    Parameters
    ----------
    result : xarray.Dataset
        Of `effective_attention`.
    width : int
        The dimensions of a head's output.
    layers, heads : int or sequence of int, optional
        Those that the user chose to look at.
    """
    nullity = result.nullity.max("query")
    count, here = int((nullity > 0).sum()), f"on these {result.sizes['key']} tokens (a head is {width} wide)"
    if not count:
        return [
            f"None of the {nullity.size} heads has a null space {here}: the output depends on every attention weight, and raw "
            "and effective attention are the same."
        ]
    null_space = (
        f"{count} of {nullity.size} heads have a null space {here}: the head's output does not depend on up to "
        f"{int(nullity.max())} dimensions of a row of attention."
    )
    shown = heads_to_describe(result, layers, heads)
    first = result.sel(layer=shown[0][0], head=shown[0][1]) if shown else None
    if first is None or bool(first.correlation.isnull()):
        return [null_space]
    head, chosen = f"layer {shown[0][0]}, head {shown[0][1]}", layers is not None or heads is not None
    alone = chosen and len(shown) == 1
    among = "of the chosen heads " if chosen else ""
    opening = f"In {head}, the" if alone else f"Raw and effective attention differ most {among}in {head}: their"
    of = " of raw and effective attention" if alone else ""
    return [
        null_space,
        f"{opening} correlation{of} is {float(first.correlation):.2f}, and {float(first.null_mass):.0%} of a row's squared norm "
        "is in the null component.",
    ]


def head_sentence(head: dict[str, Any]) -> str:
    """The tokens that receive most attention from a head, from `describe_head`."""
    raw, effective = (
        ", ".join(f"{key['token']} at {key['position']} ({key['mean']:+.2f})" for key in head[side])
        for side in ("raw", "effective")
    )
    numbers = f"correlation {head['correlation']:.2f}, null mass {head['null_mass']:.0%}, nullity {head['nullity']}"
    raw_part = f"most raw attention goes to {raw}; " if raw else ""
    return f"Layer {head['layer']}, head {head['head']} ({numbers}): {raw_part}most effective attention to {effective}."


def effective_as_json(
    result: xr.Dataset, width: int, layers: Indices | None = None, heads: Indices | None = None
) -> dict[str, Any]:
    """The findings as JSON data: means over the heads of each layer, and the heads that are described."""
    nullity = result.nullity.max("query")
    return finite_or_null(
        {
            "model": str(result.attrs["model"]),
            "tokens": result.sizes["key"],
            "heads": nullity.size,
            "heads_with_null_space": int((nullity > 0).sum()),
            "largest_nullity": int(nullity.max()),
            "head_width": width,
            "layers": [layer_means(result, int(number)) for number in result["layer"]],
            "shown": [describe_head(result, *name) for name in heads_to_describe(result, layers, heads)],
            "sentences": effective_sentences(result, width, layers, heads),
            "provenance": result.attrs,
        }
    )


def layer_means(result: xr.Dataset, number: int) -> dict[str, Any]:
    """Means over the heads of one layer."""
    layer = result.sel(layer=number)
    means = {f"mean_{name}": float(layer[name].mean()) for name in ("nullity", "null_mass", "correlation") if name in layer}
    return {"layer": number, "heads_with_null_space": int((layer.nullity.max("query") > 0).sum()), **means}


def describe_head(result: xr.Dataset, layer: int, head: int) -> dict[str, Any]:
    """How far raw and effective attention of one head agree, and the tokens that receive most of each."""
    numbers = result.sel(layer=layer, head=head)
    return {
        "layer": layer,
        "head": head,
        "nullity": int(numbers.nullity.max()),
        "null_mass": float(numbers.null_mass),
        "correlation": float(numbers.correlation),
        **{side: _top(numbers[f"{side}_received"]) if f"{side}_received" in numbers else [] for side in ("raw", "effective")},
    }


def _top(received: xr.DataArray) -> list[dict[str, Any]]:
    """The keys with the largest absolute mean, since effective attention may be negative."""
    order = np.argsort(-np.abs(received.values), kind="stable")[:TOP_TOKENS].tolist()
    return [{"token": str(received.key_token.values[key]), "position": key, "mean": float(received.values[key])} for key in order]


def heads_to_describe(result: xr.Dataset, layers: Indices | None = None, heads: Indices | None = None) -> list[tuple[int, int]]:
    """Those whose raw and effective attention differ most, among those that the user chose or that have a null space."""
    return rank_heads(result, layers, heads)[:SHOWN]


def rank_heads(result: xr.Dataset, layers: Indices | None = None, heads: Indices | None = None) -> list[tuple[int, int]]:
    """Order (layer, head) by the correlation of raw with effective attention, lowest first and undefined ones last.

    Only the chosen layers and heads; if neither is chosen, only heads that have a null space.
    """
    if "correlation" not in result:
        return []
    if layers is None and heads is None:
        candidates = (result.nullity.max("query") > 0).values
    else:
        in_layers = np.isin(result["layer"], select_indices(layers, result.sizes["layer"], "layer", first=1))
        candidates = in_layers[:, None] & np.isin(result["head"], select_indices(heads, result.sizes["head"], "head"))
    correlation = np.nan_to_num(result.correlation.values, nan=np.inf)
    at = np.argwhere(candidates)
    order = np.argsort(correlation[candidates], kind="stable")
    return [(int(result["layer"][layer]), int(result["head"][head])) for layer, head in at[order]]


def head_width(trace: Trace, kind: str | None) -> int:
    """The dimensions of a head's output."""
    record = trace.layer(1, kind)
    if isinstance(record, RecordedLayer):
        return record.values.shape[-1]
    factored = record.effective()
    return factored.basis.shape[-1] - factored.direct
