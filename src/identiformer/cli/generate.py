"""Let a language model answer a prompt, and show what each generated token drew on."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from identiformer.cli import options
from identiformer.cli.application import app, load_model, print_error, print_json, print_lines
from identiformer.cli.blocks import print_blocks
from identiformer.errors import MemoryBudgetError
from identiformer.models.generation.settings import Generation
from identiformer.progress import status
from identiformer.readings.blocks import Sentences


@app.command(epilog="Example:  identiformer generate 'Why is the sky blue?' --chat --out answer.html")
def generate(
    prompt: Annotated[str, typer.Argument(help="Text for the model to continue or answer.", callback=options.decode_nonempty)],
    chat: Annotated[bool, typer.Option("--chat", help="Put the prompt into the model's chat template.")] = False,
    system: options.System = None,
    model: options.Model = "smollm2",
    max_new_tokens: Annotated[int, typer.Option(help="The largest number of tokens to write.")] = 60,
    temperature: Annotated[
        float,
        typer.Option(
            help="0 chooses the most probable tokens; larger values sample from the softmax of logits / temperature.",
            callback=options.valid_temperature,
        ),
    ] = 0.0,
    seed: Annotated[int, typer.Option(help="Seed of the sampling.", callback=options.valid_seed)] = 0,
    generation_config: Annotated[
        str | None,
        typer.Option(
            metavar="model",
            help="Also apply the settings that the model was published with, such as a repetition penalty.",
            callback=options.valid_generation_config,
        ),
    ] = None,
    fast: Annotated[bool, typer.Option("--fast", help="Leave out certified bounds, which take most of the time.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write a report with every head to this HTML file.")] = None,
    as_json: options.Json = False,
    device: options.Device = "cpu",
    device_map: options.DeviceMap = None,
    dtype: options.Dtype = "auto",
    revision: options.Revision = None,
    memory: options.Memory = "2GiB",
    allow_pickle: options.Pickle = False,
) -> None:
    """Let a language model answer, and show which tokens each generated token drew on and the largest part of that attention."""
    Generation(chat, max_new_tokens, system)
    if out is not None:
        from identiformer.report import report_target

        report_target(out)  # checked before anything takes long
    loaded = load_model(model, device, dtype, allow_pickle, device_map, revision, memory, writes=True)
    import identiformer as idf
    from identiformer.readings import answer_as_json, answer_blocks

    console = Console()
    with status("writing the answer …"):
        answer = loaded.generate(
            prompt, chat=chat, system=system, max_new_tokens=max_new_tokens, temperature=temperature, seed=seed,
            generation_config=generation_config,
            keep_partial=not as_json,
        )  # fmt: skip
    if not as_json:
        print_lines(console, answer.text.strip(), "", soft_wrap=True)
    if answer.interrupted:
        raise KeyboardInterrupt
    passage = idf.Passage.of(loaded, answer)
    attribution = idf.answer_attribution(loaded, passage, progress=True)
    reading, interrupted = None, False
    try:
        reading = idf.read(loaded, passage, certify=not fast, keep_partial=not as_json, progress=True)
        interrupted = reading.interrupted
    except MemoryBudgetError as error:
        print_error(f"the attention of this answer is not read: {error}", "warning")
    except KeyboardInterrupt:  # the attribution is complete
        interrupted = True
    if interrupted or reading is None:
        out = None
    if out is not None and reading is not None:
        with status("drawing the report …"):
            from identiformer.report import write_report

            write_report(reading, out, passage, (answer, attribution))
    if as_json:
        print_json(answer_as_json(answer, attribution, reading))
    else:
        overview = [] if reading is None else [Sentences("", reading.overview())]
        print_blocks(console, [*answer_blocks(answer, attribution, reading), *overview])
        if out is not None:
            print_lines(console, f"report: {out}", soft_wrap=True)
    if interrupted:
        raise KeyboardInterrupt
