"""List supported architectures, and train models."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

import identiformer as idf
from identiformer.cli import options
from identiformer.cli.application import app, print_json
from identiformer.files import require_creatable
from identiformer.folders import ResumableFolder
from identiformer.options import check_epochs, check_limit
from identiformer.progress import status
from identiformer.support.record import check_recorded

Task = Annotated[str, typer.Option(help="MRPC, CoLA, SST-2, TREC or movies.", show_default=False)]
Data = Annotated[Path, typer.Option(help="Folder that contains a folder named after the task.", show_default=False)]


def _check_data(task: str, data: Path) -> None:
    """Raise unless the files of a task are there, before torch is imported."""
    from identiformer.texts import read_labeled

    for split in ("train", "dev"):
        read_labeled(data, task, split, 1)


@app.command(epilog="Example:  identiformer finetune --task MRPC --model minilm --data glue --out models/minilm-mrpc")
def finetune(
    task: Task,
    data: Data,
    out: Annotated[Path, typer.Option(help="Folder for the fine-tuned model.", show_default=False)],
    model: options.Model = "minilm",
    epochs: Annotated[int, typer.Option(help="Number of passes over the training examples.", callback=check_epochs)] = 3,
    limit: Annotated[int | None, typer.Option(help="Train on only the first N examples.", callback=check_limit)] = None,
    seed: Annotated[int, typer.Option(help="Seed of the new head and of the data order.", callback=options.valid_seed)] = 0,
    device: options.Device = "cpu",
) -> None:
    """Fine-tune a model for a task; after an interruption, the same command continues."""
    from identiformer.models.loading.checks import check_load

    _check_data(task, data)
    ResumableFolder(out.expanduser(), "finetuning").check()
    check_load(model, device)
    done = idf.finetune(model, task, data, out=out, epochs=epochs, limit=limit, seed=seed, device=device, progress=True)
    if done.reused:
        print(f"{done.path} is finished already; nothing was done.")
    scores = ", ".join(f"{name} {score:.3f}" for name, score in done.scores.items())
    print(f"{task}, development set: {scores}\nmodel: {done.path}")


@app.command(epilog="Example:  identiformer train-variants --task TREC --data data --out models/trec")
def train_variants(
    task: Task,
    data: Data,
    out: Annotated[Path, typer.Option(help="Folder for one model per variant and seed.", show_default=False)],
    seeds: Annotated[int, typer.Option(help="Train each variant with this many seeds, from 0.", min=1, max=1000)] = 3,
    key_width: Annotated[int, typer.Option(help="Width of the keys of the identifiable variant.", min=1)] = 4,
    epochs: Annotated[
        int | None,
        typer.Option(help="Number of passes over the examples.", show_default="3 to 5", callback=check_epochs),
    ] = None,
    limit: Annotated[int | None, typer.Option(help="Train on only the first N examples.", callback=check_limit)] = None,
    as_json: options.Json = False,
) -> None:
    """Train a standard and an identifiable encoder; after an interruption, the same command continues."""
    _check_data(task, data)
    require_creatable(out.expanduser())
    result = idf.train_variants(
        task, data, out=out, seeds=range(seeds), key_width=key_width, epochs=epochs, limit=limit, progress=True
    )
    if as_json:
        print_json(result.to_dict())
        return
    for variant in result["variant"].values:
        one = result.sel(variant=variant)
        scores = " ".join(f"{100 * score:.1f}" for score in one.accuracy.values)
        print(
            f"{variant}: accuracy {100 * float(one.accuracy.mean()):.1f}% ({scores}), {int(one.parameters):,} weights per layer"
        )
    difference, low, high = (100 * float(result[f"difference{end}"]) for end in ("", "_low", "_high"))
    print(f"identifiable minus standard: {difference:+.1f} points, 95% interval {low:+.1f} to {high:+.1f}\nmodels: {out}")


@app.command(epilog="Example:  identiformer models --verify bert,llama,deberta-v2")
def models(
    verify: Annotated[str | None, typer.Option(help="Check these architectures, separated by commas, or all.")] = None,
    as_json: options.Json = False,
) -> None:
    """List every architecture of transformers: what works, and the reason where something does not."""
    names = None if verify in (None, "all") else options.split(verify)
    check_recorded(names or ())
    with status("loading torch and transformers …"):
        from identiformer.support.verification import known_support, verify_models
    records = known_support() if verify is None else verify_models(names, progress=True)
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
    console.print(f"{verified} of {len(records)} architectures pass every check of attention, as tiny random models.")
