"""Fine-tune a model for a GLUE task."""

from pathlib import Path
from typing import Annotated

import typer

from identiformer.cli.shared import DeviceOption, ModelOption, app, errors


@app.command(epilog="Example:  identiformer finetune --task MRPC --model minilm --data glue --out models/minilm-mrpc")
def finetune(
    task: Annotated[str, typer.Option(help="MRPC or CoLA.", show_default=False)],
    data: Annotated[Path, typer.Option(help="GLUE folder that contains a folder named after the task.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Folder for the fine-tuned model.", show_default=False)],
    model: ModelOption = "minilm",
    epochs: Annotated[int, typer.Option(help="Number of passes over the training examples.")] = 3,
    limit: Annotated[int | None, typer.Option(help="Train on only the first N examples.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the new head and of the data order.")] = 0,
    device: DeviceOption = "cpu",
) -> None:
    """Fine-tune a model for a GLUE task; repeat the command to continue an interrupted one."""
    with errors.status("loading torch and transformers …"):
        import identiformer as idf
    done = idf.finetune(
        model, task, data, out=out, epochs=epochs, limit=limit, seed=seed, device=device, progress=errors.is_terminal
    )
    if done.found:
        print(f"{done.path} is finished already; nothing was done.")
    scores = ", ".join(f"{name} {score:.3f}" for name, score in done.scores.items())
    print(f"{task}, development set: {scores}\nmodel: {done.path}")
