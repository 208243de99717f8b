"""What the output of the model depends on, in sentences: the prediction, idle attention, and the weights that matter most."""

import json
from collections import Counter
from typing import Any

import numpy as np
import xarray as xr

from identiformer.equations.effects.parts import PARTS
from identiformer.readings.blocks import Row

SHOWN = 10
"""Weights in a table, at most one per head."""
THROUGH = {"constant": "what is the same in every text", "token": "the token itself", "context": "its context"}
LEGEND = (
    "head: layer.head; query → key: the token at the first position attends to the one at the second",
    "effect: the change of the target when the value of the weight is removed, measured in a run of the model",
    "token, context, constant: what the effect goes through: the token itself, other tokens of the text, or what is the same in "
    "every text; shares of the sum of their sizes",
)


def output_sentences(strongest: xr.Dataset | None, idle: xr.Dataset | None) -> list[str]:
    """The prediction, how much attention is idle for it, and the weight that matters most."""
    sentences: list[str] = []
    if idle is not None:
        sentences += [*_prediction(idle), _idle(idle)]
    if strongest is not None and strongest.sizes["weight"]:
        places = shown_weights(strongest)
        sentences += [weight_sentence(strongest.isel(weight=places[0]), settings_of(strongest))] if places else []
        sentences += _constant_keys(strongest)
    return sentences


def shown_weights(strongest: xr.Dataset) -> list[int]:
    """Which weights to show: the largest effects through token and context, at most one per head.

    What goes through the constant part of a value says nothing about this text.
    """
    special = strongest.constant.values if "constant" in strongest else np.zeros(strongest.sizes["weight"])
    scores = np.abs(strongest.effect.values) * (1 - np.nan_to_num(special))
    found: dict[tuple[int, int], int] = {}
    for place in np.argsort(-scores, kind="stable").tolist():
        if scores[place] > float(strongest.rounding):
            found.setdefault((int(strongest.layer[place]), int(strongest["head"][place])), place)
    return list(found.values())[:SHOWN]


def weight_sentence(weight: xr.Dataset, settings: dict[str, Any]) -> str:
    """One weight: could it be otherwise, does the output depend on it, what does it carry."""
    certified = f", certified{_interval(weight)}" if "low" in weight else ""
    through = ""
    if "token" in weight and bool(weight.token.notnull()):
        shares = sorted(((float(weight[part]), THROUGH[part]) for part in PARTS), reverse=True)
        listed = [f"{share:.0%} through {what}" for share, what in shares]
        through = f"; its effect goes {', '.join(listed[:-1])} and {listed[-1]}"
    return (
        f"Layer {int(weight.layer)}, head {int(weight['head'])}: ‘{_token(weight, 'query')}’ → ‘{_token(weight, 'key')}’ "
        f"{float(weight.raw):.2f}{certified}, worth {amount(float(weight.effect), settings)} when removed (measured){through}."
    )


def weight_rows(strongest: xr.Dataset) -> list[Row]:
    """One row per weight that is shown."""
    rows: list[Row] = []
    for place in shown_weights(strongest):
        weight = strongest.isel(weight=place)
        ends = [f"‘{_token(weight, axis)}’ {int(weight[axis])}" for axis in ("query", "key")]
        row: dict[str, str | float] = {
            "head": f"{int(weight.layer)}.{int(weight['head'])}",
            "query → key": " → ".join(ends),
            "weight": f"{float(weight.raw):.2f}",
        }
        if "low" in weight:
            row["certified"] = _interval(weight).strip() or "as it is"
        row["effect"] = number(float(weight.effect))
        row |= {part: float(weight[part]) for part in ("token", "context", "constant") if part in weight}
        rows.append(row)
    return rows


def _interval(weight: xr.Dataset) -> str:
    """The certified interval, if it is wider than what is shown of the weight."""
    low, high = (f"{max(0.0, float(weight[end])):.2f}" for end in ("low", "high"))
    return "" if low == high else f" {low}–{high}"


def _token(weight: xr.Dataset, axis: str) -> str:
    """A token without its tokenizer's sign for a space before it."""
    token = str(weight[f"{axis}_token"].item())
    return token.lstrip("▁Ġ") or token


def amount(effect: float, settings: dict[str, Any]) -> str:
    """An effect with its unit; of a number with its sign."""
    return ("+" if settings["signed"] and effect > 0 else "") + _change(effect, settings["unit"])


def _change(size: float, unit: str) -> str:
    return f"a distance of {number(size)} (1 − cos)" if unit == "1 - cos" else f"{number(size)} {unit}"


def number(value: float) -> str:
    """Two digits; powers of ten below a thousandth."""
    text = f"{value:.2g}" if abs(value) >= 1e-3 or not value else f"{value:.1e}"
    return text.replace("-", "−")


def _prediction(idle: xr.Dataset) -> list[str]:
    settings = settings_of(idle)
    probability = settings.get("probability")
    if not settings.get("prediction") or probability is None:
        return []
    return [f"The prediction ‘{settings['prediction'].strip() or settings['prediction']}’ ({probability:.0%})."]


def _idle(idle: xr.Dataset) -> str:
    settings, share = settings_of(idle), float(idle.share.sel(order="effect"))
    spent = ""
    if "weight" in idle["order"].values:
        spent = f" (ordered by raw weight, that budget is spent at {_percent(float(idle.share.sel(order='weight')))})"
    target = "it" if _prediction(idle) else settings["objective"]
    return (
        f"{_percent(share)} of the attention weight in this text is idle for {target}: removed everywhere at once, it changes "
        f"{'the prediction' if target == 'it' else target} by less than {_change(float(idle.budget), settings['unit'])}{spent}."
    )


def _constant_keys(strongest: xr.Dataset) -> list[str]:
    """Which keys have their effects through what is the same in every text."""
    if "part" not in strongest:
        return []
    constant = strongest.part.values == PARTS.index("constant")
    if not constant.any():
        return []
    keys = Counter(str(token) for token in strongest.key_token.values[constant])
    named = " and ".join(f"‘{token}’ ({count})" for token, count in keys.most_common(2))
    total = strongest.sizes["weight"]
    return [
        f"Of the {total} weights with the largest effects, {int(constant.sum())} act mostly through what is the same in every "
        f"text, most often on {named}: they say little about this text."
    ]


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.1 else f"{share:.1%}"


def settings_of(result: xr.Dataset) -> dict[str, Any]:
    """The settings of a result."""
    return json.loads(result.attrs["settings"])


def output_as_json(strongest: xr.Dataset | None, idle: xr.Dataset | None) -> dict[str, Any]:
    """The same as JSON data: `sentences`; of `idle` the shares and changes by order, and by head; of `weights` every number."""
    found: dict[str, Any] = {"sentences": output_sentences(strongest, idle)}
    if idle is not None:
        names = ("objective", "unit", "prediction", "probability")
        found |= {name: settings_of(idle)[name] for name in names}
        by_order = {
            name: dict(zip(idle["order"].values.tolist(), idle[name].values.tolist(), strict=True))
            for name in ("share", "change")
        }
        numbers = {name: float(idle[name]) for name in ("budget", "matched_change")}
        found["idle"] = {**numbers, **by_order, "share_by_head": idle.share_by_head.values}
    if strongest is not None:
        columns = [name for name in strongest.data_vars if strongest[name].dims == ("weight",)]
        rows = zip(*(strongest[name].values.tolist() for name in columns), strict=True)
        found["weights"] = [dict(zip(columns, row, strict=True)) for row in rows]
        found["effect_by_head"] = strongest.head_effect.values
    return found
