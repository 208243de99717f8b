"""Fine-tune a model for a task, in a folder from which an interrupted training continues."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np

from identiformer.equations.identifiability.rates import accuracy, f1, matthews_correlation
from identiformer.files import disk_full_as_run_error, publish, remove, temporary_path, write_file
from identiformer.finetuning.training import Recipe, Trained, check_trainable, train_classifier
from identiformer.folders import ResumableFolder, same_command_continues, says_how_to_continue
from identiformer.models import Model, load
from identiformer.results import package_versions
from identiformer.texts import Labeled, read_labeled
from identiformer.typed_json import read_json

SCORES: dict[str, dict[str, Callable[[np.ndarray, np.ndarray], float]]] = {
    "MRPC": {"accuracy": accuracy, "F1": f1},
    "CoLA": {"Matthews correlation": matthews_correlation, "accuracy": accuracy},
    "SST-2": {"accuracy": accuracy},
    "TREC": {"accuracy": accuracy},
    "movies": {"accuracy": accuracy},
}
"""The scores that are usual for each task."""
CHECKPOINTS, CONFIG, SCORES_FILE, PREDICTIONS_FILE = "checkpoints", "config.json", "scores.json", "predictions.json"


@dataclass(frozen=True)
class Finetuned:
    """A fine-tuned model.

    Attributes
    ----------
    path : Path
        The folder of the model, which `load` accepts.
    scores : dict of str to float
        Its scores on the development set.
    reused : bool
        Whether an earlier call had finished it.
    """

    path: Path
    scores: dict[str, float]
    reused: bool


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
    """Fine-tune a model for a task with the settings of BERT; an interrupted training continues to the same weights.

    Parameters
    ----------
    model : str, path or Model
        As in `load`, or a loaded model, which is not changed.
    task : {"MRPC", "CoLA", "SST-2", "TREC", "movies"}
        The task: of GLUE, the questions of TREC, or the movie reviews of ERASER.
    data : str or path
        Folder with the task's files in a folder named after it: train.tsv and dev.tsv as in GLUE, for TREC test.tsv, for movies
        those of ERASER.
    out : str or path
        A folder for checkpoints, and finally for the model, its tokenizer, scores.json and predictions.json, the labels that it
        predicts for the development set.
    epochs : int
        Number of passes over the training set.
    limit : int, optional
        Train on the first `limit` examples only.
    seed : int
        Seed of the initial weights of the classifier, the order of examples, and dropout.
    device : str
        As in `load`, if `model` is not loaded yet.
    progress : bool
        Show a progress bar.

    Returns
    -------
    Finetuned

    Examples
    --------
    >>> import identiformer as idf
    >>> done = idf.finetune("minilm", "MRPC", "glue", out="finetuned/mrpc")  # doctest: +SKIP
    >>> model = idf.load(done.path)  # doctest: +SKIP
    """
    recipe = Recipe(epochs=epochs, seed=seed)
    train, dev = read_labeled(data, task, "train", limit), read_labeled(data, task, "dev")
    folder = ResumableFolder(Path(out).expanduser(), "finetuning")
    folder.check()
    loaded = model if isinstance(model, Model) else load(model, device=device)
    return finetune_in_folder(loaded, task, train, dev, recipe, folder, progress)


def finetune_in_folder(
    model: Model, task: str, train: Labeled, dev: Labeled, recipe: Recipe, folder: ResumableFolder, progress: bool
) -> Finetuned:
    """Fine-tune a loaded model by a recipe, or continue, or return what is finished."""
    check_trainable(model)
    settings = {
        "task": task,
        "revision": model.revision,
        "architecture": type(model.network).__name__,
        "device": model.network.device.type,
        "examples": len(train),
        "data": [train.hash, dev.hash],
        **asdict(recipe),
        "versions": package_versions(),
    }
    path, checkpoints = folder.path, folder.path / CHECKPOINTS
    with says_how_to_continue(partial(same_command_continues, path)), folder.started(settings):
        scores = finished_scores(path)
        reused = scores is not None
        if scores is None:
            with disk_full_as_run_error(path, "make room and run the same again to continue from the last checkpoint"):
                trained = train_classifier(model, train, dev, recipe, checkpoints, progress=progress)
                labels = np.array(dev.labels)
                scores = {name: score(trained.predictions, labels) for name, score in SCORES[task].items()}
                _save(trained, path)
                write_file(path / PREDICTIONS_FILE, json.dumps(trained.predictions.tolist()).encode())
                write_file(path / SCORES_FILE, json.dumps(scores, indent=2).encode())  # last: it marks the end
        shutil.rmtree(checkpoints, ignore_errors=True)
    return Finetuned(path, scores, reused)


def finished_scores(folder: Path) -> dict[str, float] | None:
    """Return the scores of a finished fine-tuning; None if it is not finished."""
    path = folder / SCORES_FILE
    return read_json(path, dict[str, float], "remove it and run the same command again") if path.is_file() else None


def _save(trained: Trained, folder: Path) -> None:
    temporary = temporary_path(folder / CONFIG)
    try:
        trained.save(temporary)
        # The configuration is last: without it, the folder does not count as a model.
        for file in sorted(temporary.iterdir(), key=lambda path: path.name == CONFIG):
            publish(file, folder / file.name)
    finally:
        remove(temporary)
