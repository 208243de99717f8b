"""Train a model to tell the labels of examples, with the Hugging Face Trainer."""

import copy
import importlib.util
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64
from transformers import (
    DataCollatorWithPadding,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from identiformer.errors import InputError, MissingPackageError, ModelError
from identiformer.finetuning.checkpoints import KeepLast, last_checkpoint
from identiformer.finetuning.classifier import check_classifiable, classifier_of, padding_tokenizer
from identiformer.models.encoding.text import check_range, tokenize, warn_of_unknown_tokens
from identiformer.models.library_output import quiet_transformers
from identiformer.models.model import Model
from identiformer.options import check_seed
from identiformer.progress import WorkBar, work_bar
from identiformer.texts import Labeled

MOST_EPOCHS = 1000
"""More would not end."""


@dataclass(frozen=True)
class Recipe:
    """How to fine-tune; as BERT was, unless said otherwise."""

    epochs: int = 3
    seed: int = 0
    batch_size: int = 32
    learning_rate: float = 2e-5
    """The highest: it rises linearly during the warm-up, and falls linearly to 0."""
    warmup: float = 0.1
    """The share of all steps."""
    weight_decay: float = 0.01
    max_length: int = 128

    def __post_init__(self) -> None:
        if self.epochs < 1:
            raise InputError(f"expected at least one epoch, got {self.epochs}.")
        if self.epochs > MOST_EPOCHS:
            raise InputError(f"expected at most {MOST_EPOCHS} epochs, got {self.epochs}; a GLUE task takes about three.")
        check_seed(self.seed)


@dataclass(frozen=True)
class Trained:
    """A classifier that was trained, its tokenizer, and the labels it told of other examples."""

    network: Any
    tokenizer: Any
    told: Int64[np.ndarray, " example"]

    def save(self, folder: Path) -> None:
        """Write both to the disk, in the files that Hugging Face reads."""
        with quiet_transformers():
            self.network.save_pretrained(folder)
            self.tokenizer.save_pretrained(folder)


def check_trainable(model: Model) -> None:
    """Refuse what `train_classifier` could not train."""
    if importlib.util.find_spec("accelerate") is None:
        raise MissingPackageError("fine-tuning needs the package accelerate; run: pip install 'identiformer[finetune]'")
    check_classifiable(model)


def train_classifier(model: Model, train: Labeled, dev: Labeled, recipe: Recipe, folder: Path, *, progress: bool) -> Trained:
    """Train a copy of a model on examples, and let it tell the labels of others.

    folder: for checkpoints; a training that was stopped goes on from the last one there, to the same weights.
    """
    device, tokenizer = model.network.device, padding_tokenizer(model)
    length = min(recipe.max_length, model.positions or recipe.max_length)
    training, others = (_encode(model, tokenizer, labeled, length) for labeled in (train, dev))
    with quiet_transformers(), _own_chance(device, recipe.seed), work_bar("training", progress) as bar:
        network = classifier_of(model)
        trainer = _StrictTrainer(
            network,
            _arguments(recipe, folder, device),
            # The collator and calls change a tokenizer, which is to be saved as it was.
            DataCollatorWithPadding(copy.deepcopy(tokenizer)),
            train_dataset=training,
            callbacks=[KeepLast(), _Steps(bar)],
        )
        trainer.remove_callback(PrinterCallback)
        checkpoint = last_checkpoint(folder)
        trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
        scores = trainer.predict(others).predictions
    scores = scores[0] if isinstance(scores, tuple) else scores
    return Trained(network, tokenizer, scores.argmax(-1))


def _arguments(recipe: Recipe, folder: Path, device: torch.device) -> TrainingArguments:
    arguments = TrainingArguments(
        output_dir=str(folder),
        num_train_epochs=recipe.epochs,
        per_device_train_batch_size=recipe.batch_size,
        per_device_eval_batch_size=recipe.batch_size,
        learning_rate=recipe.learning_rate,
        warmup_steps=recipe.warmup,
        weight_decay=recipe.weight_decay,
        seed=recipe.seed,
        save_strategy="steps",
        save_steps=0.1,
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=device.type == "cpu",
        dataloader_pin_memory=False,
    )
    if arguments.device.type != device.type:
        raise InputError(f"expected a device that the Trainer uses here, {arguments.device.type} or cpu, got {device.type}.")
    arguments._n_gpu = min(arguments.n_gpu, 1)  # several would share out larger batches
    return arguments


def _encode(model: Model, tokenizer: Any, labeled: Labeled, length: int) -> Any:
    tokenizer = copy.deepcopy(tokenizer)
    encoded = [
        {**tokenize(tokenizer, example.text, example.pair, truncation=True, max_length=length), "labels": label}
        for example, label in zip(labeled.examples, labeled.labels, strict=True)
    ]
    texts = [each["input_ids"] for each in encoded]
    check_range(model.backbone, tokenizer, texts)
    warn_of_unknown_tokens(tokenizer, texts)
    return encoded


class _StrictTrainer(Trainer):
    """Goes on only from a checkpoint that holds every weight; the Trainer alone would leave others as they were drawn."""

    def _issue_warnings_after_load(self, load_result: Any) -> None:
        missing = sorted({*load_result.missing_keys} - {*getattr(self.model, "all_tied_weights_keys", ())})
        if missing:
            raise ModelError(
                f"expected all weights in the last checkpoint, got none for {missing[0]}; remove the unfinished folder and start "
                "again."
            )


class _Steps(TrainerCallback):
    """Moves a bar."""

    def __init__(self, bar: WorkBar) -> None:
        self.bar = bar

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self.bar.expect(state.max_steps)
        self.bar.advance(state.global_step)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self.bar.advance(1)


@contextmanager
def _own_chance(device: torch.device, seed: int) -> Iterator[None]:
    """The Trainer seeds every generator of the process; give them back as they were."""
    python, numpy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            torch.manual_seed(seed)
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
