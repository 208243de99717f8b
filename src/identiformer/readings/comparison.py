"""Which map predicts what, and by how much: the result of a comparison in sentences and tables."""

import json
from dataclasses import dataclass, replace

import numpy as np
import xarray as xr

from identiformer.figures.style import short_name
from identiformer.measures.faithfulness.bootstrap import estimate
from identiformer.measures.maps import MAPS

RAW = "raw"
VARIANTS = ("_words", "_others")
"""Endings of yardsticks that count some of the sources."""
OPENING = 3
"""Yardsticks that the first paragraph is about."""
COLUMNS = 3
"""Yardsticks per table."""


@dataclass(frozen=True)
class Winner:
    """The map that predicts a yardstick best, with its score and its difference to raw attention, or to the next best."""

    yardstick: str
    title: str
    maps: tuple[str, ...]
    """Titles: that of the highest score, and then those whose scores on the same examples do not differ from it."""
    score: tuple[float, float, float]
    """Mean, low and high."""
    rival: str = ""
    """Raw attention, or the map that scores next highest if raw attention scores highest or was not judged."""
    rival_score: float = np.nan
    difference: tuple[float, float, float] = (np.nan, np.nan, np.nan)
    """To the rival, on the same examples."""

    def sentence(self) -> str:
        """The winner in one sentence."""
        best, *ties = self.maps
        tied = f" (as well as {_listed(ties)}, within the interval)" if ties else ""
        start = f"{best[:1].upper()}{best[1:]} scores highest on {self.title}: {_interval(*self.score)}{tied}"
        if not self.rival:
            return f"{start}."
        mean, low, high = self.difference
        interval = "" if np.isnan(low) else f" [{low:+.2f}, {high:+.2f}]"
        return f"{start}; {self.rival} scores {self.rival_score:.2f}, a difference of {mean:+.2f}{interval}."


@dataclass(frozen=True, eq=False)
class Comparison:
    """The result of a comparison in words."""

    result: xr.Dataset
    corpus: str

    @property
    def winners(self) -> list[Winner]:
        """The best map of each yardstick, and the best explanation of each that judges explanations."""
        return [
            *(self._winner(str(name), "map", "yardstick", "score") for name in self.result["yardstick"].values),
            *(
                self._winner(str(name), "explanation", "explanation_yardstick", "explanation_score")
                for name in self.result["explanation_yardstick"].values
            ),
        ]

    def overview(self) -> list[str]:
        """The first paragraph: which map predicts what on this model and corpus, and by how much."""
        result = self.result
        examples, model = result.sizes["example"], short_name(result.attrs["model"])
        count = f"{examples} example{'s' if examples != 1 else ''}"
        sentences = [f"{model} over {count} of {self.corpus}."]
        winners = [winner for winner in self.winners if np.isfinite(winner.score[0])]
        first = [winner for winner in winners if not winner.yardstick.endswith(("_head", *VARIANTS))] or winners
        sentences += [winner.sentence() for winner in first[:OPENING]]
        if len({winner.maps[0] for winner in first[:OPENING]}) > 1:
            sentences.append("No map is best at everything: what is removed, and how, decides which map predicts it.")
        return sentences

    def caveats(self) -> list[str]:
        """What limits the comparison: short texts, few examples, what the model does not support, what was counted."""
        result = self.result
        tokens, rank = result.tokens.values, result["rank"].values
        short = float(result.short_share)
        sentences = [
            f"Texts have {_range(tokens)} tokens, and the values of a head have rank {_range(rank)}. Effective attention can "
            f"differ from raw attention only where a text has more tokens than that rank; {short:.0%} of texts have no more."
        ]
        equal = result.equal_to_raw.mean("layer")
        names = [_title(result, name) for name in result["map"].values if name != RAW and equal.sel(map=name) > 0]
        if names:
            sentences.append(f"Equal to raw attention in some layers of some texts: {_listed(names)}.")
        residual = [_title(result, name) for name in result["map"].values if name in MAPS and MAPS[name].has_residual]
        if residual:
            sentences.append(
                f"These maps include what the residual connection carries, most of it from the token itself, which no removal of "
                f"attention takes away; compare them over other tokens only: {_listed(residual)}."
            )
        if result.sizes["example"] < 2:
            sentences.append("One example has no interval.")
        sentences += [f"Not supported: {name}: {reason}" for name, reason in self.unsupported.items()]
        counts = json.loads(result.attrs["counts"])
        return sentences + [f"Counted by {name.replace('/', ': ')}: {count}." for name, count in counts.items()]

    @property
    def unsupported(self) -> dict[str, str]:
        """Maps and yardsticks that the model does not support, with the reason."""
        return json.loads(self.result.attrs["unsupported"])

    def tables(self) -> list[dict]:
        """Maps against a few yardsticks at a time: header and rows of text, with the best score of each column marked."""
        return [
            *self._tables("map", "yardstick", "score"),
            *self._tables("explanation", "explanation_yardstick", "explanation_score"),
        ]

    def signed_table(self) -> list[tuple[str, str, str, str]]:
        """Signed maps: title, yardstick, score by absolute value, and score with the sign."""
        result = self.result
        return [
            (
                _title(result, str(name)),
                str(one.yardstick_title.item()),
                f"{float(one.score):.2f}",
                f"{float(one.signed_score):.2f}",
            )
            for name in result["map"].values
            for one in (result.sel(map=name, yardstick=yardstick) for yardstick in result["yardstick"].values)
            if np.isfinite(one.signed_score) and not str(one["yardstick"].item()).endswith(VARIANTS)
        ]

    def _tables(self, maps: str, yardsticks: str, score: str) -> list[dict]:
        result, tables = self.result, []
        names = result[yardsticks].values
        for start in range(0, len(names), COLUMNS):
            part = result.sel({yardsticks: names[start : start + COLUMNS]})
            best = part[score].max(maps)
            rows = []
            for name in result[maps].values:
                row = part.sel({maps: name})
                cells = [
                    {"text": _cell(*(float(row[f"{score}{end}"][column]) for end in ("", "_low", "_high"))),
                     "best": bool(row[score][column] == best[column])}
                    for column in range(part.sizes[yardsticks])
                ]  # fmt: skip
                rows.append({"map": str(row[f"{maps}_title"].item()), "cost": str(row[f"{maps}_cost"].item()), "cells": cells})
            tables.append({"header": [str(title) for title in part[f"{yardsticks}_title"].values], "rows": rows})
        return tables

    def _winner(self, name: str, maps: str, yardsticks: str, variable: str) -> Winner:
        result = self.result.sel({yardsticks: name})
        title = str(result[f"{yardsticks}_title"].item())
        scores = result[variable].values
        # A map that is computed by what the yardstick does predicts it by definition.
        candidates = [index for index, one in enumerate(result[maps].values) if one != name and np.isfinite(scores[index])]
        if not candidates:
            return Winner(name, title, ("nothing",), (np.nan, np.nan, np.nan))
        best = max(candidates, key=lambda index: scores[index])
        by_example = result[f"example_{variable}"].transpose("example", maps).values
        behind = estimate(by_example[:, [best]] - by_example)
        ties = [index for index in candidates if index != best and behind.low[index] <= 0]
        titles = [str(title) for title in result[f"{maps}_title"].values]
        winner = Winner(
            name,
            title,
            tuple(titles[index] for index in (best, *ties)),
            (float(scores[best]), float(result[f"{variable}_low"][best]), float(result[f"{variable}_high"][best])),
        )
        others = sorted((index for index in candidates if index not in (best, *ties)), key=lambda index: -scores[index])
        if not others:
            return winner
        rival = next((index for index in others if result[maps].values[index] == RAW), others[0])
        difference = (float(behind.mean[rival]), float(behind.low[rival]), float(behind.high[rival]))
        return replace(winner, rival=titles[rival], rival_score=float(scores[rival]), difference=difference)


def _interval(mean: float, low: float, high: float) -> str:
    return f"{mean:.2f}" if np.isnan(low) else f"{mean:.2f} [{low:.2f}, {high:.2f}]"


def _cell(mean: float, low: float, high: float) -> str:
    return "—" if np.isnan(mean) else _interval(mean, low, high)


def _title(result: xr.Dataset, name: str) -> str:
    return str(result.map_title.sel(map=name).item())


def _range(numbers: np.ndarray) -> str:
    low, high = int(numbers.min()), int(numbers.max())
    return str(low) if low == high else f"{low} to {high}"


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def comparison_table(result: xr.Dataset) -> list[dict[str, str | float | int]]:
    """One row per map, yardstick and layer, and one for all layers, for a CSV file."""
    rows: list[dict[str, str | float | int]] = []
    short = result.tokens <= result["rank"]
    lengths = {"median_tokens": _number(result.tokens.median()), "median_rank": _number(result["rank"].median())}
    for name in result["map"].values:
        for yardstick in result["yardstick"].values:
            one = result.sel(map=name, yardstick=yardstick)
            common = {"map": str(name), "yardstick": str(yardstick)}
            more = ("difference", "difference_low", "difference_high", "spearman_score", "signed_score")
            rows.append(
                {
                    **common,
                    "layer": "all",
                    **{key: _number(one[key]) for key in ("score", "score_low", "score_high")},
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
                numbers = {f"score{end}": _number(scores[f"layer_score{end}"]) for end in ("", "_low", "_high")}
                numbers |= {"equal_to_raw": _number(scores.equal_to_raw), "short_share": _number(short.sel(layer=layer).mean())}
                rows.append({**common, "layer": int(layer), **numbers})
    for name in result["explanation"].values:
        for yardstick in result["explanation_yardstick"].values:
            one = result.sel(explanation=name, explanation_yardstick=yardstick)
            numbers = {f"score{end}": _number(one[f"explanation_score{end}"]) for end in ("", "_low", "_high")}
            rows.append(
                {
                    "map": str(name),
                    "yardstick": str(yardstick),
                    "layer": "output",
                    **numbers,
                    "absolute_score": _number(one.explanation_absolute_score),
                    "examples": int(one.explanation_score_examples),
                    "map_cost": str(one.explanation_cost.item()),
                    "yardstick_cost": str(one.explanation_yardstick_cost.item()),
                }
            )
    return rows


def _number(value: xr.DataArray) -> float | str:
    """A number to six digits; empty where it is undefined."""
    number = float(value)
    return "" if np.isnan(number) else round(number, 6)
