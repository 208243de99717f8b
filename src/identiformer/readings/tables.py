"""The tables of a reading, as rows of words and shares: the tests by layer and head, and the statements."""

from collections.abc import Sequence

from identiformer.readings.blocks import Row
from identiformer.readings.reading import Reading, Statement


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
    """One row per statement, with the part that is largest where it is not the readable one."""
    rows: list[Row] = [
        {
            "head": f"{statement.layer}.{statement.head}",
            "query → key": statement.pair,
            "weight": statement.weight,
            "certified": statement.certified,
            "output": statement.contribution,
            "self-contribution": statement.own_content,
            "why": "" if statement.category == "readable" else statement.category,
        }
        for statement in statements
    ]
    return _shown(rows, certified)


def _shown(rows: list[Row], certified: bool) -> list[Row]:
    """The rows without what is empty in all of them, and without certified shares that were not computed."""
    empty = {name for name in (rows[0] if rows else ()) if all(row[name] == "" for row in rows)}
    hidden = empty | (set() if certified else {"certified"})
    return [{name: cell for name, cell in row.items() if name not in hidden} for row in rows]
