"""Inspect the attention of one text."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from identiformer.cli import options
from identiformer.cli.application import INTERRUPTED, app, errors, load_model, print_json, print_lines, read_or_generate

if TYPE_CHECKING:
    from identiformer.readings import Inspection, Reading
    from identiformer.readings.tables import Row


@app.command(epilog="Example:  identiformer inspect 'He said the pie was his.' --pair 'She did not agree.' --out report.html")
def inspect(
    text: options.Text = None,
    pair: options.Pair = None,
    image: options.Image = None,
    chat: options.Chat = False,
    system: options.System = None,
    generate: options.Generate = None,
    model: options.Model = "minilm",
    layer: Annotated[list[int] | None, typer.Option(help="Show this layer, counted from 1. Repeat for more.")] = None,
    head: Annotated[list[int] | None, typer.Option(help="Show this head, counted from 0. Repeat for more.")] = None,
    fast: Annotated[bool, typer.Option("--fast", help="Leave out certified bounds, which take most of the time.")] = False,
    certify: Annotated[
        bool,
        typer.Option(
            "--certify",
            help="For the heads in which raw and effective attention differ most, or the chosen heads, show alternative "
            "attention with the same output, and confirm it by a patched run.",
        ),
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Write a report with every head to this HTML file.")] = None,
    as_json: options.Json = False,
    truncate: options.Truncate = False,
    device: options.Device = "cpu",
    device_map: options.DeviceMap = None,
    dtype: options.Dtype = "auto",
    revision: options.Revision = None,
    allow_pickle: options.Pickle = False,
) -> None:
    """Show what a text's attention may be taken to mean: how much is certified, contributes, and is about the token."""
    options.check_one_input(image, text, pair)
    if out is not None:
        from identiformer.report import report_target

        report_target(out)  # checked before anything takes long
    loaded = load_model(model, device, dtype, allow_pickle, device_map, revision)
    console = Console()
    chosen: Any = {"layers": layer or None, "heads": head or None}
    from identiformer.texts import PASSAGE

    source = read_or_generate(loaded, PASSAGE if text is None else text, pair, chat, system, generate)
    with errors.status("running the model …"):
        import identiformer as idf
        from identiformer.readings import certify as certify_heads
        from identiformer.readings.patterns import pattern_sentence, patterns_as_json
        from identiformer.readings.reading import reading_of, rows_to_read

        picture = None if image is None else idf.open_picture(loaded, image)
        content = source if picture is None else picture.pixels
        trace = loaded.trace(content, pair, truncate=truncate, raw_norms=True)
        inspection = idf.inspect_trace(trace, **chosen)
        recorded = isinstance(trace.layer(1), idf.RecordedLayer)
        patterns = idf.attention_patterns(trace) if recorded else None
        rows = rows_to_read(content)
        first = reading_of(idf.attention_reading(trace, queries=rows, certify=False, **chosen)) if recorded else None
    if first is not None and not (as_json or fast):
        print_lines(console, *first.overview(), "")
    reading = None
    if recorded:
        reading = idf.read(loaded, content, pair, certify=not fast, truncate=truncate, progress=True, **chosen)
    if certify:
        tensor = None if picture is None else picture.pixels
        inspection = certify_heads(inspection, loaded, trace, progress=True, tensor=tensor)
    if out is not None:
        with errors.status("drawing the report …"):
            from identiformer.report import write_report

            write_report(inspection, out, trace, reading, picture)
    if as_json:
        found = inspection.as_json()
        if reading is not None:
            found = {"reading": reading.as_json(), **found}
        if patterns is not None:
            found = {**found, "patterns": patterns_as_json(patterns)}
        print_json(found)
    else:
        _print(console, reading, inspection, None if patterns is None else pattern_sentence(patterns), out)
    if reading is not None and reading.interrupted:
        raise typer.Exit(INTERRUPTED)


LEGEND = (
    "head: layer.head; query → key: the token at the first position attends to the one at the second",
    "output: the share of what the head writes that comes from the key",
    "own content: the share of the key's vector that comes from its own token",
)
"""Of the tables of statements."""


def _print(console: Console, reading: "Reading | None", inspection: "Inspection", patterns: str | None, out: Path | None) -> None:
    if reading is None:
        print_lines(
            console,
            "This text is too long to record all its attention weights, which a reading needs: use a shorter text, or read some "
            "rows with idf.read(model, text, queries=[…]).",
        )
    else:
        _print_reading(console, reading)
    print_lines(console, "", "Effective attention:", *inspection.sentences())
    if patterns is not None:
        print_lines(console, "", "Patterns:", patterns)
    for certificate in inspection.certificates:
        print_lines(console, "", *certificate.sentences())
    if out is not None:
        print_lines(console, f"report: {out}", soft_wrap=True)


def _print_reading(console: Console, reading: "Reading") -> None:
    from identiformer.readings.heads import categories_sentence
    from identiformer.readings.reading import FAILURES
    from identiformer.readings.tables import cascade_rows, statement_rows

    print_lines(console, *reading.overview(), categories_sentence(reading.result), "")
    if reading.sinks:
        sentences = (line for sink in reading.sinks for line in sink.sentences(reading.certified))
        print_lines(console, "Attention sinks:", *sentences, "")
    console.print(_table("Weight that passes each test", cascade_rows(reading)))
    print_lines(console, "writes: the share of the layer's output that the head writes", "")
    reasons = [f"{FAILURES[name]}." for name in dict.fromkeys(each.category for each in reading.failing)]
    for title, statements, notes in (
        ("hold up best", reading.holding, reading.where_they_hold_up()),
        ("do not hold up", reading.failing, reasons),
    ):
        if statements:
            console.print(_table(f"Statements that {title}", statement_rows(statements, reading.certified)))
            print_lines(console, *notes, "")
    if reading.holding or reading.failing:
        print_lines(console, *LEGEND)


def _table(title: str, rows: "list[Row]") -> Table:
    from identiformer.readings.tables import cell_text

    table = Table(title=title, box=SIMPLE, title_justify="left", pad_edge=False, collapse_padding=True)
    for name, cell in rows[0].items():
        table.add_column(name, justify="left" if isinstance(cell, str) else "right")
    for row in rows:
        table.add_row(*(Text(cell_text(cell)) for cell in row.values()))
    return table
