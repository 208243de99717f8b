"""Inspect the attention of one text."""

from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from identiformer.cli import options
from identiformer.cli.application import INTERRUPTED, app, errors, load_model, print_json, print_lines

if TYPE_CHECKING:
    from identiformer.readings import Inspection, Reading
    from identiformer.readings.reading import Statement


@app.command(epilog="Example:  identiformer inspect 'He said the pie was his.' --pair 'She did not agree.' --out report.html")
def inspect(
    text: options.Text = None,
    pair: options.Pair = None,
    model: options.Model = "minilm",
    layer: Annotated[list[int] | None, typer.Option(help="Show this layer, counted from 1. Repeat for more.")] = None,
    head: Annotated[list[int] | None, typer.Option(help="Show this head, counted from 0. Repeat for more.")] = None,
    fast: Annotated[bool, typer.Option("--fast", help="Leave out certified bounds, which take most of the time.")] = False,
    certify: Annotated[
        bool,
        typer.Option(
            "--certify",
            help="Show alternative attention with the same output for the heads in which raw and effective attention differ "
            "most, or for the chosen ones, and confirm it by a patched run.",
        ),
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Write a report with every head to this HTML file.")] = None,
    as_json: options.Json = False,
    truncate: options.Truncate = False,
    device: options.Device = "cpu",
    dtype: options.Dtype = "float32",
    allow_pickle: options.Pickle = False,
) -> None:
    """Show what a text's attention may be taken to mean: how much is certified, contributes, and is about the token."""
    loaded = load_model(model, device, dtype, allow_pickle)
    console = Console()
    chosen: Any = {"layers": layer or None, "heads": head or None}
    with errors.status("running the model …"):
        import identiformer as idf
        from identiformer.readings import certify as certify_heads
        from identiformer.readings.reading import reading_of
        from identiformer.report import report_target, write_report
        from identiformer.texts import PASSAGE

        if out is not None:
            report_target(out)  # checked before anything takes long
        text = PASSAGE if text is None else text
        trace = loaded.trace(text, pair, truncate=truncate, raw_norms=True)
        inspection = idf.inspect_trace(trace, **chosen)
        recorded = isinstance(trace.layer(1), idf.RecordedLayer)
        first = reading_of(idf.attention_reading(trace, certify=False, **chosen)) if recorded else None
    if first is not None and not (as_json or fast):
        print_lines(console, *first.overview(), "")
    reading = None
    if recorded:
        reading = idf.read(loaded, text, pair, certify=not fast, truncate=truncate, progress=True, **chosen)
    if certify:
        inspection = certify_heads(inspection, loaded, trace, progress=True)
    if out is not None:
        with errors.status("drawing the report …"):
            write_report(inspection, out, trace, reading)
    if as_json:
        content = inspection.as_json()
        if reading is not None:
            content = {"reading": reading.as_json(), **content}
        print_json(content)
    else:
        _print(console, reading, inspection, out)
    if reading is not None and reading.interrupted:
        raise typer.Exit(INTERRUPTED)


def _print(console: Console, reading: "Reading | None", inspection: "Inspection", out: Path | None) -> None:
    from identiformer.readings.reading import FAILURES

    if reading is None:
        print_lines(console, "This text is too long to record its attention weights, which a reading needs: use a shorter text.")
    else:
        print_lines(console, *reading.sentences(), "")
        console.print(_cascade_table(reading))
        for title, statements in (("hold up best", reading.holding), ("do not hold up", reading.failing)):
            if statements:
                console.print("", _statement_table(f"Statements that {title}", statements, reading.certified))
        if reading.failing:
            print_lines(console, *(f"{FAILURES[name]}." for name in dict.fromkeys(each.category for each in reading.failing)))
    print_lines(console, "", "Effective attention:", *(f"  {sentence}" for sentence in inspection.sentences()))
    for certificate in inspection.certificates:
        print_lines(console, "", *certificate.sentences())
    if out is not None:
        print_lines(console, f"report: {out}", soft_wrap=True)


def _cascade_table(reading: "Reading") -> Table:
    """One row per layer, the mean of its heads, and one for each of the heads that write most of its output."""
    rows = [
        {
            "layer": str(row.layer),
            "head": "all" if row.head is None else str(row.head),
            "output": row.output_share,
            "certified": row.certified,
            "contributes": row.contributing,
            "own content": row.readable,
            "on sinks": row.sink_share,
        }
        for row in reading.table()
    ]
    table = _table("Weight that passes each test", rows, reading.certified)
    table.caption = "output: the share of the layer's output that the head writes"
    return table


def _statement_table(title: str, statements: "tuple[Statement, ...]", certified: bool) -> Table:
    rows = [
        {
            "head": f"{each.layer}.{each.head}",
            "query → key": each.pair,
            "weight": each.weight,
            "certified": each.certified,
            "output": each.contribution,
            "own content": each.own_content,
            "": "" if each.category == "readable" else each.category,
        }
        for each in statements
    ]
    return _table(title, rows, certified)


def _table(title: str, rows: list[dict[str, str | float]], certified: bool) -> Table:
    table = Table(title=title, box=SIMPLE, title_justify="left", caption_justify="left", pad_edge=False)
    columns = [name for name in rows[0] if certified or name != "certified"]
    for name in columns:
        table.add_column(name, justify="left" if isinstance(rows[0][name], str) else "right")
    for row in rows:
        table.add_row(*(Text(cell) if isinstance(cell, str) else _percent(cell) for cell in map(row.__getitem__, columns)))
    return table


def _percent(share: float) -> str:
    return "–" if isnan(share) else f"{round(share, 2) + 0:.0%}"  # without a minus before zero
