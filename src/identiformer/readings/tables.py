"""The tables of a reading, as rows of words and shares: the tests by layer and head, and the statements."""

from collections.abc import Sequence
from math import isnan

from identiformer.readings.answer import HOLDS_UP, AnswerSummary, DrawnFrom
from identiformer.readings.reading import Reading, Statement

Row = dict[str, str | float]
"""Cells by the name of their column."""


def cascade_rows(reading: Reading) -> list[Row]:
    """One row per layer, the mean of its heads, and one for each of the heads that write most of its output."""
    rows: list[Row] = [
        {
            "layer": str(row.layer),
            "head": "all" if row.head is None else str(row.head),
            "writes": row.output_share,
            "certified": row.certified,
            "contributes": row.contributing,
            "readable": row.readable,
            "on sinks": row.sink_share,
        }
        for row in reading.table()
    ]
    return _shown(rows, reading.certified)


def statement_rows(statements: Sequence[Statement], certified: bool) -> list[Row]:
    """One row per statement, with its reason if it does not hold up."""
    rows: list[Row] = [
        {
            "head": f"{statement.layer}.{statement.head}",
            "query → key": statement.pair,
            "weight": statement.weight,
            "certified": statement.certified,
            "output": statement.contribution,
            "own content": statement.own_content,
            "why": "" if statement.category == "readable" else statement.category,
        }
        for statement in statements
    ]
    return _shown(rows, certified)


def answer_rows(summary: AnswerSummary, separator: str = " · ") -> list[Row]:
    """One row per generated token: its probability, the prompt tokens it drew on, and whether the attention to them holds up."""
    return [
        {
            "token": step.token,
            "probability": step.probability,
            "from prompt": step.prompt_share,
            "prompt tokens it drew on most": separator.join(map(_drawn_from, step.sources)),
        }
        for step in summary.steps
    ]


def _drawn_from(source: DrawnFrom) -> str:
    verdict = "" if source.category is None else ", holds up" if source.category == HOLDS_UP else f", {source.category}"
    attention = "" if source.weight is None else f" (attention {cell_text(source.weight)}{verdict})"
    return f"‘{source.token}’ {source.position} {cell_text(source.share)}{attention}"


def cell_text(cell: str | float) -> str:
    """A cell as it is printed: shares as percentages, without a minus before zero."""
    if isinstance(cell, str):
        return cell
    return "–" if isnan(cell) else f"{round(cell, 2) + 0:.0%}"


def _shown(rows: list[Row], certified: bool) -> list[Row]:
    """The rows without what is empty in all of them, and without certified shares that were not computed."""
    empty = {name for name in (rows[0] if rows else ()) if all(row[name] == "" for row in rows)}
    hidden = empty | (set() if certified else {"certified"})
    return [{name: cell for name, cell in row.items() if name not in hidden} for row in rows]
