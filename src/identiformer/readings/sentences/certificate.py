"""Sentences about the certificate of a head, and about the certified bounds of any row."""

import json
from typing import Any

import numpy as np
import torch
import xarray as xr

from identiformer.equations.attention.contributions import is_sink
from identiformer.readings.sentences.patched_run import patched_run_sentence

NARROW = 0.01
"""A narrower interval is reported as certified."""


def certificate_sentences(certificate: xr.Dataset) -> list[str]:
    """The findings of `certify_head` as sentences."""
    constrained = ""
    if "rows_key_constrained" in certificate:
        constrained = (
            " Of the changes that another query could cause with these keys, even small ones change the output in "
            f"{int(certificate.rows_key_constrained)} rows."
        )
    sentences = [
        f"Layer {int(certificate['layer'])}, head {int(certificate['head'])}: {row_sentence(certificate)}",
        patched_run_sentence(float(certificate.patched_total_variation), certificate),
        f"In {int(certificate.rows_certified)} of the {int(certificate.rows)} rows of this head the largest weight is certified "
        f"to be the largest.{constrained}",
    ]
    if "layer_nullity" in certificate:
        nullity = int(certificate.layer_nullity)
        sentences.append(
            f"In that row all heads of the layer together have {nullity} dimensions on which the layer's output does not depend, "
            f"{nullity - int(certificate.heads_nullity) or 'none'} more than the single heads."
        )
    return sentences


def certificate_as_json(certificate: xr.Dataset) -> dict[str, Any]:
    """The findings of `certify_head` as JSON data."""
    row = certificate.isel(query=0)
    key, rival = int(row.largest), int(row.rival)
    largest = row.sel(key=key)
    ends = ("low", "high", "low_reached", "high_reached")
    nullities = ("layer_nullity", "heads_nullity", "rows_key_constrained")
    return {
        **{name: int(row[name]) for name in ("layer", "head", "rows", "rows_certified", "query")},
        "query_token": str(row.query_token.values),
        "key": key,
        "key_token": str(largest.key_token.values),
        "weight": float(largest.raw),
        **{name: float(largest[name]) for name in ends},
        "confirmed": bool(largest.confirmed),
        "argmax_certified": bool(row.argmax_certified),
        "rival": None if rival < 0 else rival,
        "rival_token": None if rival < 0 else str(row.key_token.values[rival]),
        "tolerance": json.loads(certificate.attrs["settings"])["tolerance"],
        "alternative": row.patched_alternative.item(),
        "total_variation": float(row.patched_total_variation),
        "output": {"where": "output", **{name: float(row[name]) for name in ("patched", "control", "floor", "scale")}},
        **{name: int(row[name]) if name in row else None for name in nullities},
        "sentences": certificate_sentences(certificate),
    }


def row_sentence(result: xr.Dataset, state_tolerance: bool = True) -> str:
    """Describe the certified bounds on the largest weight of one row; `result` is that row's `ambiguity`."""
    row = result.isel(query=0)
    largest = row.sel(key=int(row.largest))
    low, high = float(largest.low), float(largest.high)
    reached = f"[{float(largest.low_reached):.2f}, {float(largest.high_reached):.2f}]"
    certified = f"[{low:.2f}, {high:.2f}]"
    if high - low < NARROW:
        interval = f"that weight is certified to be in [{low:.3f}, {high:.3f}]"
    elif reached == certified:
        interval = f"that weight could be anywhere in {reached}"
    else:
        interval = f"that weight could be anywhere in {reached}, and is certified to be in {certified}"
    if not bool(largest.confirmed):
        interval += " (the certified bounds may be too wide)"
    rival = int(row.rival)
    if bool(row.argmax_certified):
        rank = "it is certified to be the largest"
    elif rival >= 0:
        rank = f"another key, ‘{row.key_token.values[rival]}’ at {rival}, could be larger"
    else:
        rank = "whether another key could be larger is undecided"
    tolerance = json.loads(result.attrs["settings"])["tolerance"]
    same = f"the same output, up to a relative change of {tolerance:g}," if state_tolerance else "the same output"
    return (
        f"‘{row.query_token.values}’ at {int(row['query'])} attends most to ‘{largest.key_token.values}’ at {int(row.largest)} "
        f"({float(largest.raw):.2f}). With {same} {interval}; {rank}."
    )


def row_sentences(result: xr.Dataset) -> list[str]:
    """`row_sentence`, and what the largest weight of the row contributes to the head's output."""
    first = row_sentence(result, state_tolerance=False)
    row = result.isel(query=0)
    largest = row.sel(key=int(row.largest))
    contribution, low, high = (float(largest[name]) for name in ("contribution", "contribution_low", "contribution_high"))
    if np.isnan(contribution):
        return [first, "The output of the head is zero in this row, so nothing contributes to it."]
    share = f"{round(contribution, 2) + 0:.0%}"
    sink = is_sink(*(torch.tensor([[[float(largest[name])]]]) for name in ("raw", "contribution", "norm_share"))).item()
    certified = "" if high - low < NARROW else f" (certified: {round(low, 2) + 0:.0%} to {round(high, 2) + 0:.0%})"
    meaning = ": an attention sink" if sink else ""
    return [first, f"That key contributes {share} of what the head writes{certified}{meaning}."]
