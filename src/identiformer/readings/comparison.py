"""A comparison of maps in words, in a report, and as rows for a CSV file."""

import json
from collections.abc import Iterable, Sequence
from itertools import product

import numpy as np
import xarray as xr

from identiformer.figures.style import short_name
from identiformer.measures.faithfulness import YARDSTICKS
from identiformer.measures.faithfulness.bootstrap import estimate
from identiformer.measures.maps import MAPS
from identiformer.readings.blocks import Block, Bold, Row, Sentences, Table
from identiformer.readings.corpus import figures_of

RAW = "raw"
NOTHING = "Nothing"
VARIANTS = ("_words", "_others")
"""Endings of yardsticks that count some of the sources."""
OPENING = 3
"""Yardsticks that the first paragraph is about."""
JUDGED = (("map", "yardstick", "score"), ("explanation", "explanation_yardstick", "explanation_score"))
"""Axes and score of what is compared: maps of layers, and explanations of the output."""


def overview(result: xr.Dataset, corpus: str) -> list[str]:
    """The first paragraph: which map predicts what on this model and corpus, and by how much."""
    examples = result.sizes["example"]
    count = f"{examples} example{'s' if examples != 1 else ''}"
    found = [winner for winner in winners(result) if winner[1] != NOTHING]
    first = ([winner for winner in found if not winner[0].endswith(("_head", *VARIANTS))] or found)[:OPENING]
    sentences = [f"{short_name(result.attrs['model'])} over {count} of {corpus}.", *(sentence for *_, sentence in first)]
    if len({best for _, best, _ in first}) > 1:
        sentences.append("No map is best at everything: what is removed, and how, decides which map predicts it.")
    return sentences


def caveats(result: xr.Dataset) -> list[str]:
    """What limits the comparison: short texts, few examples, what the model does not support, what was counted."""
    sentences = [
        f"Texts have {_range(result.tokens)} tokens, and the values of a head have rank {_range(result['rank'])}. Effective "
        "attention can differ from raw attention only where a text has more tokens than that rank; "
        f"{float(result.short_share):.0%} of texts have no more."
    ]
    equal = result.equal_to_raw.mean("layer")
    if names := [name for name in result["map"].values if name != RAW and equal.sel(map=name) > 0]:
        sentences.append(f"Equal to raw attention in some layers of some texts: {_titles(result, names)}.")
    if names := [name for name in result["map"].values if name in MAPS and MAPS[name].has_residual]:
        sentences.append(
            "These maps include what the residual connection carries, most of it from the token itself, which no removal of "
            f"attention takes away; compare them over other tokens only: {_titles(result, names)}."
        )
    if result.sizes["example"] < 2:
        sentences.append("One example has no interval.")
    unsupported, counts = (json.loads(result.attrs[name]) for name in ("unsupported", "counts"))
    sentences += [f"Not supported: {name}: {reason}" for name, reason in unsupported.items()]
    return sentences + [f"Counted by {name.replace('/', ': ')}: {count}." for name, count in counts.items()]


def winners(result: xr.Dataset) -> list[tuple[str, str, str]]:
    """By yardstick, the title of the map or explanation that predicts it best, and that in a sentence."""
    return [
        (str(name), *_winner(result.sel({yardsticks: name}), maps, yardsticks, score))
        for maps, yardsticks, score in JUDGED
        for name in result[yardsticks].values
    ]


def interval(scores: xr.Dataset, name: str) -> str:
    """A score with its interval, if it has one."""
    mean, low, high = (float(scores[f"{name}{end}"]) for end in ("", "_low", "_high"))
    return f"{mean:.2f}" if np.isnan(low) else f"{mean:.2f} [{low:.2f}, {high:.2f}]"


def _winner(result: xr.Dataset, maps: str, yardsticks: str, score: str) -> tuple[str, str]:
    """The map with the highest score, those that do not differ from it on the same examples, and the difference to a rival.

    The rival is raw attention, or the map that scores next highest if raw attention is among the best or was not judged.
    """
    title, titles = str(result[f"{yardsticks}_title"].item()), [str(each) for each in result[f"{maps}_title"].values]
    names, scores = result[maps].values.tolist(), result[score].values
    # A map that is computed by what the yardstick does predicts it by definition.
    computed_alike = result[yardsticks].item()
    candidates = [index for index, name in enumerate(names) if name != computed_alike and np.isfinite(scores[index])]
    if not candidates:
        return NOTHING, f"{NOTHING} scores highest on {title}: nan."
    best, *others = sorted(candidates, key=lambda index: -scores[index])
    by_example = result[f"example_{score}"].transpose("example", maps).values
    behind = estimate(by_example[:, [best]] - by_example)
    ties = [index for index in sorted(others) if behind.low[index] <= 0]
    tied = f" (as well as {_listed(titles[index] for index in ties)}, within the interval)" if ties else ""
    first = titles[best][:1].upper() + titles[best][1:]
    sentence = f"{first} scores highest on {title}: {interval(result.isel({maps: best}), score)}{tied}"
    others = [index for index in others if index not in ties]
    if not others:
        return titles[best], f"{sentence}."
    rival = next((index for index in others if names[index] == RAW), others[0])
    mean, low, high = (float(each[rival]) for each in behind[:3])
    between = "" if np.isnan(low) else f" [{low:+.2f}, {high:+.2f}]"
    rest = f"{titles[rival]} scores {float(scores[rival]):.2f}, a difference of {mean:+.2f}{between}."
    return titles[best], f"{sentence}; {rest}"


def _titles(result: xr.Dataset, names: list[str]) -> str:
    return _listed(str(result.map_title.sel(map=name).item()) for name in names)


def _range(numbers: xr.DataArray) -> str:
    low, high = int(numbers.min()), int(numbers.max())
    return str(low) if low == high else f"{low} to {high}"


def _listed(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


COLUMNS = 3
"""Yardsticks per table."""


def comparison_blocks(result: xr.Dataset, corpus: str, counts: Sequence[str]) -> list[Block]:
    """The result of a comparison; `counts` states how much was measured."""
    signed = _signed(result)
    questions = [_question(str(name)) for _, names, _ in JUDGED for name in result[names].values]
    return [
        Sentences("", [" ".join(overview(result, corpus))]),
        *figures_of("faithfulness", result),
        Sentences("What predicts what", [sentence for *_, sentence in winners(result)]),
        Sentences("What to keep in mind", [*caveats(result), *counts]),
        Sentences(
            "Scores",
            [
                "Maps are ranked by absolute value. The cost is in forward passes over the text. All numbers, by layer, by ranks "
                "(Spearman) and with the sign of signed maps, are in table.csv."
            ],
        ),
        *(table for names in JUDGED for table in _tables(result, *names)),
        *([Table("", signed, ("Signed maps, all sources.",))] if signed else []),
        Table("Yardsticks", questions, ("What each yardstick asks.",)),
    ]


def _question(name: str) -> Row:
    yardstick = YARDSTICKS[name]
    return {"yardstick": yardstick.title, "question": yardstick.question, "paper": yardstick.paper}


def _tables(result: xr.Dataset, maps: str, yardsticks: str, score: str) -> list[Table]:
    """Maps against a few yardsticks at a time, with the best score of each column in bold."""
    note = "Mean over examples and its 95% interval; the highest score of each column is bold."
    parts = (result.isel({yardsticks: slice(at, at + COLUMNS)}) for at in range(0, result.sizes[yardsticks], COLUMNS))
    return [
        Table("", [_row(part, part.isel({maps: at}), maps, yardsticks, score) for at in range(part.sizes[maps])], (note,))
        for part in parts
    ]


def _row(part: xr.Dataset, row: xr.Dataset, maps: str, yardsticks: str, score: str) -> Row:
    cells = {"map": str(row[f"{maps}_title"].item()), "cost": str(row[f"{maps}_cost"].item())}
    for column, best in enumerate(part[score].max(maps).values):
        one = row.isel({yardsticks: column})
        text = "—" if np.isnan(one[score]) else interval(one, score)
        cells[str(one[f"{yardsticks}_title"].item())] = Bold(text) if one[score] == best else text
    return cells


def _signed(result: xr.Dataset) -> list[Row]:
    """Signed maps: the score by absolute value, and with the sign."""
    names = product(result["map"].values, result["yardstick"].values)
    pairs = (result.sel(map=name, yardstick=yardstick) for name, yardstick in names)
    return [
        {
            "map": str(one.map_title.item()),
            "yardstick": str(one.yardstick_title.item()),
            "by absolute value": f"{float(one.score):.2f}",
            "with the sign": f"{float(one.signed_score):.2f}",
        }
        for one in pairs
        if np.isfinite(one.signed_score) and not str(one["yardstick"].item()).endswith(VARIANTS)
    ]


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
