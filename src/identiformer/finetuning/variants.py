"""Train a standard and an identifiable encoder for a task side by side, and compare their accuracy (Bhardwaj et al., 2021)."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import xarray as xr
from jaxtyping import Bool

from identiformer.equations.identifiability.rates import difference_interval
from identiformer.errors import InputError
from identiformer.finetuning.glue import PREDICTIONS_FILE, finetune_in_folder
from identiformer.finetuning.training import Recipe
from identiformer.folders import ResumableFolder
from identiformer.models import Model, load
from identiformer.models.library_output import library_versions
from identiformer.nn import IdentifiableConfig, IdentifiableModel
from identiformer.options import check_seed
from identiformer.results import describe
from identiformer.texts import Labeled, read_labeled
from identiformer.typed_json import read_json

WIDTH, HEADS, LAYERS, KEY_WIDTH = 64, 4, 2, 4
VARIANTS = ("standard", "identifiable")
LEARNING_RATE = 1e-3
EPOCHS = {"SST-2": 3, "TREC": 5, "movies": 4}
"""Of training from scratch, so that both variants fit the training set."""
LENGTHS = {"SST-2": 128, "TREC": 128, "movies": 256}
"""Tokens to which texts are truncated."""


@dataclass(frozen=True)
class Variant:
    """The widths of one variant of the encoder."""

    key_width: int
    value_width: int
    intermediate_size: int

    @property
    def config(self) -> IdentifiableConfig:
        """Of an encoder with these widths."""
        return IdentifiableConfig(
            hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS, key_width=self.key_width,
            value_width=self.value_width, intermediate_size=self.intermediate_size,
        )  # fmt: skip

    @property
    def layer_parameters(self) -> int:
        """The number of weights of one layer."""
        attention = HEADS * (2 * self.key_width * (WIDTH + 1) + self.value_width * (2 * WIDTH + 1)) + WIDTH
        return attention + self.intermediate_size * (2 * WIDTH + 1) + WIDTH


def variants(key_width: int = KEY_WIDTH) -> dict[str, Variant]:
    """The two variants, with equally many weights: where values are wide, the feed-forward layer is smaller."""
    head_width = WIDTH // HEADS
    standard = Variant(head_width, head_width, 4 * WIDTH)
    without_hidden = Variant(key_width, WIDTH, 0)
    hidden = (standard.layer_parameters - without_hidden.layer_parameters) // (2 * WIDTH + 1)
    return {"standard": standard, "identifiable": Variant(key_width, WIDTH, hidden)}


def train_variants(
    task: str,
    data: str | os.PathLike[str],
    *,
    out: str | os.PathLike[str],
    seeds: Sequence[int] = (0, 1, 2),
    key_width: int = KEY_WIDTH,
    epochs: int | None = None,
    limit: int | None = None,
    progress: bool = False,
) -> xr.Dataset:
    """Train a standard and an identifiable encoder from scratch, with equally many weights and the same order of examples.

    Both have two layers of four heads and width 64, and the vocabulary of minilm. Heads of the standard encoder have keys and
    values of width 16; those of the identifiable one have narrow keys and values as wide as the model, which are added
    (`nn.IdentifiableSelfAttention`). An interrupted training continues to the same weights.

    Parameters
    ----------
    task : {"SST-2", "TREC", "movies"}
        The task; also MRPC or CoLA, which are hard to learn from scratch.
    data : str or path
        As in `finetune`.
    out : str or path
        Folder for one model per variant and seed, such as ``identifiable-0``, which `load` accepts.
    seeds : sequence of int
        Of initial weights, order of examples, and dropout.
    key_width : int
        Of the identifiable variant.
    epochs : int, optional
        Number of passes over the training set; by default 3 for SST-2, 5 for TREC, 4 for movies.
    limit : int, optional
        Train on the first `limit` examples only.
    progress : bool
        Show progress bars.

    Returns
    -------
    xarray.Dataset
        `accuracy` (variant, seed); `parameters`, those of one layer (variant); `difference`, the mean accuracy of the
        identifiable minus that of the standard encoder, and its 95% interval `difference_low`, `difference_high`, by a bootstrap
        over seeds and examples; `majority`, the accuracy of always predicting the most frequent label.

    Examples
    --------
    >>> import identiformer as idf
    >>> idf.train_variants("TREC", "data", out="variants/trec")  # doctest: +SKIP
    """
    if not seeds:
        raise InputError("expected at least one seed, got none.")
    for seed in seeds:
        check_seed(seed)
    chosen = variants(key_width)
    configs = {name: chosen[name].config for name in VARIANTS}  # raises for widths that do not fit, before anything is trained
    train, dev = read_labeled(data, task, "train", limit), read_labeled(data, task, "dev")
    recipe = {"epochs": EPOCHS.get(task, 3) if epochs is None else epochs, "max_length": LENGTHS.get(task, 128)}
    tokenizer, folder = load("minilm").tokenizer, Path(out).expanduser()
    correct = np.zeros((len(VARIANTS), len(seeds), len(dev)), bool)
    for column, seed in enumerate(seeds):
        for row, name in enumerate(VARIANTS):
            model = untrained(configs[name], tokenizer, seed)
            into = ResumableFolder(folder / f"{name}-{seed}", "finetuning")
            rates = Recipe(seed=seed, learning_rate=LEARNING_RATE, **recipe)
            done = finetune_in_folder(model, task, train, dev, rates, into, progress)
            correct[row, column] = _correct(done.path, dev)
    settings = {"task": task, "examples": len(train), "tested": len(dev), "key_width": key_width, **recipe}
    source = {"model": "standard and identifiable encoders", "revision": f"{train.hash} {dev.hash}", **library_versions()}
    result = _comparison(correct, [chosen[name] for name in VARIANTS], seeds)
    result["majority"] = np.bincount(dev.labels).max() / len(dev)
    return describe(result, "variant_accuracy", source, settings)


def untrained(config: IdentifiableConfig, tokenizer: object, seed: int) -> Model:
    """An encoder with random weights."""
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        return load(IdentifiableModel(config), tokenizer)


def _correct(folder: Path, dev: Labeled) -> Bool[np.ndarray, " example"]:
    predictions = read_json(folder / PREDICTIONS_FILE, list[int], "remove its folder and run the same again")
    return np.array(predictions) == np.array(dev.labels)


def _comparison(correct: Bool[np.ndarray, "variant seed example"], chosen: list[Variant], seeds: Sequence[int]) -> xr.Dataset:
    low, high = difference_interval(correct[1], correct[0])
    accuracy = correct.mean(-1)
    variables = {
        "accuracy": (("variant", "seed"), accuracy),
        "parameters": (("variant",), np.array([variant.layer_parameters for variant in chosen])),
        "difference": ((), accuracy[1].mean() - accuracy[0].mean()),
        "difference_low": ((), low),
        "difference_high": ((), high),
    }
    return xr.Dataset(variables, {"variant": list(VARIANTS), "seed": list(seeds)})
