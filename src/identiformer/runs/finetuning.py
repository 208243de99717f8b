"""Fine-tune a model for a GLUE task, in a folder that survives being stopped."""

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from identiformer.equations.identifiability.classification import accuracy, f1, matthews_correlation
from identiformer.files import disk_full_as_run_error
from identiformer.finetuning.training import Recipe, check_trainable, train_classifier
from identiformer.models import Model, load
from identiformer.runs.finetuning_folder import FinetuningFolder
from identiformer.runs.settings import PACKAGES
from identiformer.texts import Labeled, read_labeled

SCORES: dict[str, dict[str, Callable[[np.ndarray, np.ndarray], float]]] = {
    "MRPC": {"accuracy": accuracy, "F1": f1},
    "CoLA": {"Matthews correlation": matthews_correlation, "accuracy": accuracy},
}
"""What GLUE reports for each task."""


@dataclass(frozen=True)
class Finetuned:
    """A fine-tuned model: its folder, which `load` takes, and its scores on the development set."""

    path: Path
    scores: dict[str, float]
    found: bool
    """Whether it was there already, finished."""


def finetune(
    model: str | os.PathLike[str] | Model,
    task: str,
    data: str | os.PathLike[str],
    *,
    out: str | os.PathLike[str],
    epochs: int = 3,
    limit: int | None = None,
    seed: int = 0,
    device: str = "cpu",
    progress: bool = False,
) -> Finetuned:
    """Fine-tune a model for a GLUE task as BERT was; one that was stopped goes on, to the same weights.

    model: as in `load`, or a loaded one, which stays as it is. device: as in `load`, for a model that is named.
    task: "MRPC" or "CoLA". data: the folder of GLUE, with train.tsv and dev.tsv in a folder of the task's name.
    out: the folder for checkpoints, and in the end for the model, its tokenizer and scores.json.
    limit: train on the first so many examples only. seed: for the head's first weights, the order of examples and dropout.
    """
    recipe = Recipe(epochs=epochs, seed=seed)
    train, dev = read_labeled(data, task, "train", limit), read_labeled(data, task, "dev")
    folder = FinetuningFolder(Path(out).expanduser())
    folder.check()
    loaded = model if isinstance(model, Model) else load(model, device=device)
    check_trainable(loaded)
    with folder.begun(_settings(loaded, task, train, dev, recipe)):
        if (scores := folder.scores) is not None:
            folder.clear()
            return Finetuned(folder.path, scores, found=True)
        with disk_full_as_run_error(folder.path, "make room and run the same again to continue from the last checkpoint"):
            trained = train_classifier(loaded, train, dev, recipe, folder.checkpoints, progress=progress)
            true = np.array(dev.labels)
            scores = {name: score(trained.told, true) for name, score in SCORES[task].items()}
            folder.finish(trained, scores)
        folder.clear()
    return Finetuned(folder.path, scores, found=False)


def _settings(model: Model, task: str, train: Labeled, dev: Labeled, recipe: Recipe) -> dict[str, Any]:
    """All that the weights depend on."""
    return {
        "task": task,
        "revision": model.revision,
        "architecture": type(model.network).__name__,
        "device": model.network.device.type,
        "examples": len(train),
        "data": [train.hash, dev.hash],
        **asdict(recipe),
        "versions": {package: version(package) for package in PACKAGES},
    }
