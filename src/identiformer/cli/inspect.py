"""Inspect the attention of one text."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from identiformer.cli import options
from identiformer.cli.application import app, load_model, print_json, print_lines, read_or_generate
from identiformer.cli.blocks import print_blocks
from identiformer.progress import status


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
    target: options.Target = "output",
    as_json: options.Json = False,
    truncate: options.Truncate = False,
    device: options.Device = "cpu",
    device_map: options.DeviceMap = None,
    dtype: options.Dtype = "auto",
    revision: options.Revision = None,
    memory: options.Memory = "2GiB",
    allow_pickle: options.Pickle = False,
) -> None:
    """Show what a text's attention may be taken to mean: what the output depends on, and what each weight passes."""
    options.check_one_input(image, text, pair)
    generation = options.check_answer(chat, system, generate, pair)
    if out is not None:
        from identiformer.report import report_target

        report_target(out)  # checked before anything takes long
    loaded = load_model(
        model, device, dtype, allow_pickle, device_map, revision, memory, layer, head, writes=generation is not None,
        reads_images=image is not None,
    )  # fmt: skip
    console = Console()
    from identiformer.texts import PASSAGE

    source = read_or_generate(loaded, PASSAGE if text is None else text, generation)
    import identiformer as idf
    from identiformer.readings import reading_as_json, reading_blocks
    from identiformer.readings.reader import readings, with_certificates

    content = source if image is None else idf.open_picture(loaded, image)
    passage = idf.Passage.of(loaded, content, pair, truncate=truncate)
    chosen: Any = {"layers": layer or None, "heads": head or None, "target": options.output_target(target)}
    with status("running the model …"):
        _ = passage.trace if passage.answer is None else passage.traced(rows=passage.rows or (), raw_norms=True)
    stream = readings(passage, quick=not (as_json or fast), certify=not fast, keep_partial=not as_json, progress=True, **chosen)
    reading = next(stream)
    if not (as_json or fast):
        print_lines(console, *reading.dependence(), *reading.overview(), "")
        reading = next(stream)
    if certify and not reading.interrupted:
        reading = with_certificates(passage, reading, progress=True)
    if reading.interrupted:
        out = None
    if out is not None:
        with status("drawing the report …"):
            from identiformer.report import write_report

            write_report(reading, out, passage)
    if as_json:
        print_json(reading_as_json(reading))
    else:
        print_blocks(console, reading_blocks(reading))
        if out is not None:
            print_lines(console, f"report: {out}", soft_wrap=True)
    if reading.interrupted:
        raise KeyboardInterrupt
