"""Inspect the attention of one text."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from identiformer.cli import options
from identiformer.cli.application import app, errors, load_model, print_json, print_lines


@app.command(epilog="Example:  identiformer inspect 'He said the pie was his.' --pair 'She did not agree.' --out report.html")
def inspect(
    text: options.Text = None,
    pair: options.Pair = None,
    model: options.Model = "minilm",
    layer: Annotated[list[int] | None, typer.Option(help="Show this layer, counted from 1. Repeat for more.")] = None,
    head: Annotated[list[int] | None, typer.Option(help="Show this head, counted from 0. Repeat for more.")] = None,
    certify: Annotated[
        bool,
        typer.Option(
            help="Compute certified bounds on each shown head's weights, confirm them by a patched run, and report "
            "how many rows of every head are certified."
        ),
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Write a report with every head to this HTML file.")] = None,
    as_json: options.Json = False,
    truncate: options.Truncate = False,
    device: options.Device = "cpu",
    dtype: options.Dtype = "float32",
    allow_pickle: options.Pickle = False,
) -> None:
    """Show how much of a text's attention reaches the model's output, and where raw attention misleads."""
    loaded = load_model(model, device, dtype, allow_pickle)
    with errors.status("running the model …") as status:
        import identiformer as idf
        from identiformer.readings import certify as certify_heads
        from identiformer.report import report_target, write_report
        from identiformer.texts import PASSAGE

        if out is not None:
            report_target(out)  # checked before anything takes long
        trace = loaded.trace(PASSAGE if text is None else text, pair, truncate=truncate, raw_norms=True)
        status.update("measuring …")
        inspection = idf.inspect_trace(trace, layers=layer or None, heads=head or None)
    if certify:
        inspection = certify_heads(inspection, loaded, trace, progress=True)
    if out is not None:
        with errors.status("drawing the report …"):
            write_report(inspection, out, trace)
    if as_json:
        print_json(inspection.as_json())
        return
    console = Console()
    print_lines(console, *inspection.sentences())
    console.print(_layer_table(inspection.layers))
    print_lines(console, *(head.sentence() for head in inspection.misleading))
    for certificate in inspection.certificates:
        print_lines(console, "", *certificate.sentences())
    if out is not None:
        print_lines(console, f"report: {out}", soft_wrap=True)


def _layer_table(layers) -> Table:  # noqa: ANN001
    table = Table("layer", "heads with a null space", "nullity", "null mass", "correlation", title="means over heads")
    for row in layers:
        numbers = (f"{row.mean_nullity:.1f}", f"{row.mean_null_mass:.0%}", f"{row.mean_correlation:.2f}")
        table.add_row(str(row.layer), str(row.heads_with_null_space), *numbers)
    return table
