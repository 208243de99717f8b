"""The opening of a report: what a text's attention may be taken to mean."""

from collections.abc import Iterable, Sequence
from functools import partial
from math import isnan
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from identiformer.figures.reading import draw_cascade, draw_readable_map, head_to_show
from identiformer.readings import Reading
from identiformer.readings.reading import FAILURES, Statement
from identiformer.report.pictures import picture


def reading_section(reading: Reading) -> dict[str, Any]:
    """What the template shows of a reading: sentences, pictures, and tables as a header and rows of text."""
    any_head = bool(reading.result.certified.notnull().any())  # not if certification was interrupted at once
    layer, head = head_to_show(reading.result)
    certified = reading.certified
    table = partial(_table, hidden=() if certified else ("certified",))
    categories = dict.fromkeys(statement.category for statement in reading.failing)
    return {
        "overview": reading.overview(),
        "cascade_svg": picture(_figure(draw_cascade(reading.result))) if any_head else None,
        "maps_svg": picture(_figure(draw_readable_map(reading.result, layer, head)[0])) if any_head else None,
        "layer": layer,
        "head": head,
        "sinks": [sink.sentences(certified) for sink in reading.sinks],
        "table": table(
            {
                "layer": str(row.layer),
                "head": "all" if row.head is None else str(row.head),
                "share of the output": row.output_share,
                "certified": row.certified,
                "contributes": row.contributing,
                "own content": row.readable,
                "on sinks": row.sink_share,
            }
            for row in reading.table()
        ),
        "holding": table(map(_cells, reading.holding)),
        "failing": table({**_cells(statement), "reason": statement.category} for statement in reading.failing),
        "reasons": [f"{FAILURES[category]}." for category in categories],
    }


def _figure(ax: Axes) -> Figure:
    figure = ax.figure
    assert isinstance(figure, Figure)
    return figure


def _cells(statement: Statement) -> dict[str, str | float]:
    return {
        "head": f"layer {statement.layer}, head {statement.head}",
        "query → key": statement.pair,
        "weight": statement.weight,
        "certified": statement.certified,
        "contribution": statement.contribution,
        "own content": statement.own_content,
    }


def _table(rows: Iterable[dict[str, str | float]], hidden: Sequence[str]) -> dict[str, Any]:
    """The names of the columns, those that hold words, and all cells; shares as percentages."""
    rows = [{name: cell for name, cell in row.items() if name not in hidden} for row in rows]
    header = list(rows[0]) if rows else []
    words = [column for column, name in enumerate(header) if isinstance(rows[0][name], str)]
    return {"header": header, "words": words, "rows": [[_text(cell) for cell in row.values()] for row in rows]}


def _text(cell: str | float) -> str:
    if isinstance(cell, str):
        return cell
    return "–" if isnan(cell) else f"{cell:.0%}"
