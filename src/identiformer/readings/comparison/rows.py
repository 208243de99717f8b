"""The result of a comparison as rows for a CSV file."""

from itertools import product

import numpy as np
import xarray as xr

Cells = dict[str, str | float | int]


def comparison_table(result: xr.Dataset) -> list[Cells]:
    """One row per map, yardstick and layer, and one for all layers, for a CSV file."""
    rows: list[Cells] = []
    short = result.tokens <= result["rank"]
    lengths = {"median_tokens": _number(result.tokens.median()), "median_rank": _number(result["rank"].median())}
    for name, yardstick in product(result["map"].values, result["yardstick"].values):
        one = result.sel(map=name, yardstick=yardstick)
        common: Cells = {"map": str(name), "yardstick": str(yardstick)}
        more = ("difference", "difference_low", "difference_high", "spearman_score", "signed_score")
        rows.append(
            {
                **common,
                "layer": "all",
                **_scores(one, "score"),
                **{key: _number(one[key]) if key in one else "" for key in more},
                "equal_to_raw": _number(one.equal_to_raw.mean()),
                **lengths,
                "short_share": _number(result.short_share),
                "examples": int(one.score_examples),
                "map_cost": str(one.map_cost.item()),
                "yardstick_cost": str(one.yardstick_cost.item()),
            }
        )
        for layer in result["layer"].values:
            scores = one.sel(layer=layer)
            shares = {"equal_to_raw": _number(scores.equal_to_raw), "short_share": _number(short.sel(layer=layer).mean())}
            rows.append({**common, "layer": int(layer), **_scores(scores, "layer_score"), **shares})
    for name, yardstick in product(result["explanation"].values, result["explanation_yardstick"].values):
        one = result.sel(explanation=name, explanation_yardstick=yardstick)
        rows.append(
            {
                "map": str(name),
                "yardstick": str(yardstick),
                "layer": "output",
                **_scores(one, "explanation_score"),
                "absolute_score": _number(one.explanation_absolute_score),
                "examples": int(one.explanation_score_examples),
                "map_cost": str(one.explanation_cost.item()),
                "yardstick_cost": str(one.explanation_yardstick_cost.item()),
            }
        )
    return rows


def _scores(one: xr.Dataset, name: str) -> Cells:
    return {f"score{end}": _number(one[f"{name}{end}"]) for end in ("", "_low", "_high")}


def _number(value: xr.DataArray) -> float | str:
    """A number to six digits; empty where it is undefined."""
    number = float(value)
    return "" if np.isnan(number) else round(number, 6)
