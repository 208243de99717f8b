"""Let a language model answer a prompt, and show what each generated token drew on."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from identiformer.cli import options
from identiformer.cli.application import INTERRUPTED, app, errors, load_model, print_json, print_lines
from identiformer.errors import MemoryBudgetError

if TYPE_CHECKING:
    from identiformer.readings import AnswerSummary, Reading


@app.command(epilog="Example:  identiformer generate 'Why is the sky blue?' --chat --out answer.html")
def generate(
    prompt: Annotated[str, typer.Argument(help="Text for the model to continue or answer.", callback=options.decode_text)],
    chat: Annotated[bool, typer.Option("--chat", help="Put the prompt into the model's chat template.")] = False,
    system: options.System = None,
    model: options.Model = "smollm2",
    max_new_tokens: Annotated[int, typer.Option(help="The largest number of tokens to write.")] = 60,
    temperature: Annotated[float, typer.Option(help="0 chooses the most probable tokens; larger values sample.")] = 0.0,
    seed: Annotated[int, typer.Option(help="Seed of the sampling.")] = 0,
    fast: Annotated[bool, typer.Option("--fast", help="Leave out certified bounds, which take most of the time.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write a report with every head to this HTML file.")] = None,
    as_json: options.Json = False,
    device: options.Device = "cpu",
    device_map: options.DeviceMap = None,
    dtype: options.Dtype = "auto",
    revision: options.Revision = None,
    allow_pickle: options.Pickle = False,
) -> None:
    """Let a language model answer, and show which tokens each generated token drew on and whether that attention holds up."""
    if out is not None:
        from identiformer.report import report_target

        report_target(out)  # checked before anything takes long
    loaded = load_model(model, device, dtype, allow_pickle, device_map, revision)
    import identiformer as idf
    from identiformer.readings import summarize_answer

    console = Console()
    with errors.status("writing the answer …"):
        answer = loaded.generate(
            prompt, chat=chat, system=system, max_new_tokens=max_new_tokens, temperature=temperature, seed=seed
        )
    if not as_json:
        print_lines(console, answer.text.strip(), "", soft_wrap=True)
    attribution = idf.answer_attribution(loaded, answer, progress=True)
    with errors.status("running the model …"):
        trace = loaded.trace(answer, raw_norms=True)
    reading = None
    if isinstance(trace.layer(1), idf.RecordedLayer):
        with suppress(MemoryBudgetError):
            reading = idf.read(loaded, answer, certify=not fast, agreement=False, progress=True)
    if reading is None:
        too_long = "The answer is too long to read its attention: use a shorter prompt, or lower --max-new-tokens."
        print_lines(errors, too_long)
    summary = summarize_answer(answer, attribution, reading)
    if out is not None:
        with errors.status("drawing the report …"):
            from identiformer.report import write_report

            write_report(idf.inspect_trace(trace), out, trace, reading, answer=summary)
    if as_json:
        print_json(summary.as_json())
    else:
        _print(console, summary, reading, out)
    if answer.interrupted or (reading is not None and reading.interrupted):
        raise typer.Exit(INTERRUPTED)


def _print(console: Console, summary: "AnswerSummary", reading: "Reading | None", out: Path | None) -> None:
    from identiformer.readings.reading import FAILURES
    from identiformer.readings.tables import answer_rows, cell_text

    print_lines(console, *summary.sentences(), "")
    rows = answer_rows(summary, "\n")
    table = Table(box=SIMPLE, pad_edge=False)
    for name, cell in rows[0].items():
        table.add_column(name, justify="left" if isinstance(cell, str) else "right", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell_text(cell)) for cell in row.values()))
    console.print(table)
    categories = {source.category for step in summary.steps for source in step.sources}
    print_lines(console, *(f"{reason}." for name, reason in FAILURES.items() if name in categories))
    if reading is not None:
        print_lines(console, "", *reading.overview())
    if out is not None:
        print_lines(console, f"report: {out}", soft_wrap=True)
