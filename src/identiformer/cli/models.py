"""List supported architectures, and fine-tune a model."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from identiformer.cli import options
from identiformer.cli.application import app, errors, print_json


@app.command(epilog="Example:  identiformer finetune --task MRPC --model minilm --data glue --out models/minilm-mrpc")
def finetune(
    task: Annotated[str, typer.Option(help="MRPC or CoLA.", show_default=False)],
    data: Annotated[Path, typer.Option(help="GLUE folder that contains a folder named after the task.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Folder for the fine-tuned model.", show_default=False)],
    model: options.Model = "minilm",
    epochs: Annotated[int, typer.Option(help="Number of passes over the training examples.")] = 3,
    limit: Annotated[int | None, typer.Option(help="Train on only the first N examples.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the new head and of the data order.")] = 0,
    device: options.Device = "cpu",
) -> None:
    """Fine-tune a model for a GLUE task; repeat the command to continue an interrupted one."""
    with errors.status("loading torch and transformers …"):
        import identiformer as idf
    done = idf.finetune(
        model, task, data, out=out, epochs=epochs, limit=limit, seed=seed, device=device, progress=errors.is_terminal
    )
    if done.reused:
        print(f"{done.path} is finished already; nothing was done.")
    scores = ", ".join(f"{name} {score:.3f}" for name, score in done.scores.items())
    print(f"{task}, development set: {scores}\nmodel: {done.path}")


@app.command(epilog="Example:  identiformer models --verify bert,llama,deberta-v2")
def models(
    verify: Annotated[str | None, typer.Option(help="Check these architectures, separated by commas, or all.")] = None,
    as_json: options.Json = False,
) -> None:
    """List every architecture in transformers with what works, and why not where it does not."""
    with errors.status("loading torch and transformers …"):
        from identiformer.support.verification import known_support, verify_models
    names = None if verify in (None, "all") else [name.strip() for name in verify.split(",")]
    records = known_support() if verify is None else verify_models(names, progress=errors.is_terminal)
    if as_json:
        print_json([asdict(record) for record in records])
        return
    console = Console(highlight=False)
    for record in records:
        works = [name for name, reason in record.reasons.items() if not reason]
        summary = ", ".join(works) if len(works) < len(record.reasons) else "all"
        console.print(f"[bold]{record.architecture}[/bold] ({record.reads or 'not built'}): {summary or 'nothing'}")
        if record.why_not:
            console.print(Padding(Text(record.why_not), (0, 0, 0, 4)))
    verified = sum(record.verified for record in records)
    console.print(f"{verified} of {len(records)} architectures attend as recorded, by every check.")
