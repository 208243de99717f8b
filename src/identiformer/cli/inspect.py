"""Inspect one text: what of its attention the output can see."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from identiformer.cli.shared import (
    DeviceOption,
    DtypeOption,
    JsonOption,
    ModelOption,
    PairOption,
    PickleOption,
    TextArgument,
    TruncateOption,
    app,
    errors,
    load_model,
    print_json,
)


@app.command(
    epilog="Example:  identiformer inspect 'He said the pie was his.' --pair 'She did not agree.' --out report.html",
)
def inspect(
    text: TextArgument = None,
    pair: PairOption = None,
    model: ModelOption = "minilm",
    layer: Annotated[int | None, typer.Option(help="Show this layer, counted from 1.")] = None,
    head: Annotated[int | None, typer.Option(help="Show this head, counted from 0.")] = None,
    certify: Annotated[
        bool,
        typer.Option(
            help="Compute certified bounds on each shown head's weights, confirm them by a patched run, and report "
            "how many rows of every head are certified."
        ),
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Write a report with every head to this HTML file.")] = None,
    as_json: JsonOption = False,
    truncate: TruncateOption = False,
    device: DeviceOption = "cpu",
    dtype: DtypeOption = "float32",
    allow_pickle: PickleOption = False,
) -> None:
    """Show how much of a text's attention reaches the model's output, and where raw attention misleads."""
    loaded = load_model(model, device, dtype, allow_pickle)
    with errors.status("running the model …") as status:
        import identiformer as idf
        from identiformer.readings import certify as put_to_the_test
        from identiformer.report import report_target, write_report
        from identiformer.texts import PASSAGE

        if out is not None:
            report_target(out)  # before what takes time
        trace = loaded.trace(PASSAGE if text is None else text, pair, truncate=truncate, raw_norms=True)
        status.update("measuring …")
        inspection = idf.inspect_text(trace, layer=layer, head=head)
    if certify:
        inspection = put_to_the_test(inspection, loaded, trace, progress=True)
    if out is not None:
        with errors.status("drawing the report …"):
            write_report(inspection, out, trace)
    if as_json:
        print_json(inspection.as_json())
        return
    console = Console()
    say = partial(console.print, markup=False, highlight=False)
    say(*inspection.sentences(), sep="\n")
    console.print(_layer_table(inspection.layers))
    say(*(head.sentence() for head in inspection.misleading), sep="\n")
    for certificate in inspection.certificates:
        say("", *certificate.sentences(), sep="\n")
    if out is not None:
        say(f"report: {out}", soft_wrap=True)


def _layer_table(layers) -> Table:  # noqa: ANN001
    table = Table("layer", "heads with a null space", "nullity", "null mass", "correlation", title="means over heads")
    for row in layers:
        numbers = (f"{row.mean_nullity:.1f}", f"{row.mean_null_mass:.0%}", f"{row.mean_correlation:.2f}")
        table.add_row(str(row.layer), str(row.heads_with_null_space), *numbers)
    return table
