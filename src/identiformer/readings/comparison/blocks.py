"""The report of a comparison: what predicts what, what to keep in mind, and all scores with their intervals."""

from collections.abc import Sequence
from itertools import product

import numpy as np
import xarray as xr

from identiformer.measures.faithfulness import YARDSTICKS
from identiformer.readings.blocks import Block, Bold, Row, Sentences, Table
from identiformer.readings.comparison.sentences import JUDGED, VARIANTS, caveats, interval, overview, winners
from identiformer.readings.corpus.run import figures_of

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
