"""The opening of a report: what a text's attention may be taken to mean."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from identiformer.figures.reading import draw_cascade, draw_readable_map, head_to_show
from identiformer.readings import AnswerSummary, Reading
from identiformer.readings.heads import categories_sentence
from identiformer.readings.reading import FAILURES
from identiformer.readings.tables import Row, answer_rows, cascade_rows, cell_text, statement_rows
from identiformer.report.pictures import picture


def reading_section(reading: Reading) -> dict[str, Any]:
    """What the template shows of a reading: sentences, pictures, and tables as a header and rows of text."""
    any_head = bool(reading.result.certified.notnull().any())  # not if certification was interrupted at once
    layer, head = head_to_show(reading.result)
    categories = dict.fromkeys(statement.category for statement in reading.failing)
    return {
        "overview": [*reading.overview(), categories_sentence(reading.result)],
        "cascade_svg": picture(_figure(draw_cascade(reading.result))) if any_head else None,
        "maps_svg": picture(_figure(draw_readable_map(reading.result, layer, head)[0])) if any_head else None,
        "layer": layer,
        "head": head,
        "sinks": [sink.sentences(reading.certified) for sink in reading.sinks],
        "table": _table(cascade_rows(reading)),
        "holding": _table(statement_rows(reading.holding, reading.certified)),
        "where": reading.where_they_hold_up(),
        "failing": _table(statement_rows(reading.failing, reading.certified)),
        "reasons": [f"{FAILURES[category]}." for category in categories],
    }


def answer_section(summary: AnswerSummary) -> dict[str, Any]:
    """What the template shows of an answer: its text, sentences, and a table of its tokens."""
    reasons = dict.fromkeys(source.category for step in summary.steps for source in step.sources)
    return {
        "prompt": summary.answer.prompt,
        "text": summary.answer.text,
        "sentences": summary.sentences(),
        "table": _table(answer_rows(summary)),
        "reasons": [f"{FAILURES[category]}." for category in reasons if category in FAILURES],
    }


def _figure(ax: Axes) -> Figure:
    figure = ax.figure
    assert isinstance(figure, Figure)
    return figure


def _table(rows: Sequence[Row]) -> dict[str, Any]:
    """The names of the columns, those that hold words, and all cells."""
    header = list(rows[0]) if rows else []
    words = [column for column, name in enumerate(header) if isinstance(rows[0][name], str)]
    return {"header": header, "words": words, "rows": [[cell_text(cell) for cell in row.values()] for row in rows]}
