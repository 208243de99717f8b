"""Train a classifier with the Hugging Face Trainer, with checkpoints from which it continues."""

import copy
import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64
from transformers import (
    AutoModelForSequenceClassification,
    DataCollatorWithPadding,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from identiformer.errors import InputError, ModelError, UnsupportedModelError, require_package
from identiformer.files import publish
from identiformer.models.encoding.image_audio import takes_images
from identiformer.models.encoding.text import check_range, tokenize, warn_of_unknown_tokens
from identiformer.models.library_output import quiet_transformers
from identiformer.models.model import Model
from identiformer.options import check_epochs, check_seed
from identiformer.progress import WorkBar, work_bar
from identiformer.texts import Labeled

COMPLETE = "whole-"
"""Prefix of the names of complete checkpoints."""


@dataclass(frozen=True)
class Recipe:
    """Hyperparameters of fine-tuning; the defaults are those of BERT."""

    epochs: int = 3
    seed: int = 0
    batch_size: int = 32
    learning_rate: float = 2e-5
    """The peak; the rate rises linearly during the warm-up and then falls linearly to 0."""
    warmup: float = 0.1
    """Fraction of all steps."""
    weight_decay: float = 0.01
    max_length: int = 128

    def __post_init__(self) -> None:
        check_epochs(self.epochs)
        check_seed(self.seed)


@dataclass(frozen=True)
class Trained:
    """A trained classifier, its tokenizer, and the labels it predicts for the development set."""

    network: Any
    tokenizer: Any
    predictions: Int64[np.ndarray, " example"]

    def save(self, folder: Path) -> None:
        """Write the model and the tokenizer in the format of Hugging Face."""
        with quiet_transformers():
            self.network.save_pretrained(folder)
            self.tokenizer.save_pretrained(folder)


def train_classifier(model: Model, train: Labeled, dev: Labeled, recipe: Recipe, folder: Path, *, progress: bool) -> Trained:
    """Train a copy of a model, and predict the labels of the development set.

    An interrupted training continues from the last checkpoint in `folder`, to the same weights.
    """
    device, tokenizer = model.network.device, padding_tokenizer(model)
    length = min(recipe.max_length, model.positions or recipe.max_length)
    training_set, development_set = (_encode(model, tokenizer, labeled, length) for labeled in (train, dev))
    with quiet_transformers(), _seeded(device, recipe.seed), work_bar("training", progress) as bar:
        network = classifier_of(model, train.classes)
        trainer = _StrictTrainer(
            network,
            _arguments(recipe, folder, device),
            # The collator changes its tokenizer, so it gets a copy.
            DataCollatorWithPadding(copy.deepcopy(tokenizer)),
            train_dataset=training_set,
            callbacks=[KeepLastCheckpoint(), _AdvanceBar(bar)],
        )
        trainer.remove_callback(PrinterCallback)
        checkpoint = last_checkpoint(folder)
        trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
        scores = trainer.predict(development_set).predictions
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
    arguments._n_gpu = min(arguments.n_gpu, 1)  # several GPUs would multiply the batch size
    return arguments


def _encode(model: Model, tokenizer: Any, labeled: Labeled, length: int) -> Any:
    tokenizer = copy.deepcopy(tokenizer)
    encoded = [
        {**tokenize(tokenizer, example.text, example.pair, truncation=True, max_length=length), "labels": label}
        for example, label in zip(labeled.examples, labeled.labels, strict=True)
    ]
    ids = [example["input_ids"] for example in encoded]
    check_range(model.backbone, tokenizer, ids)
    warn_of_unknown_tokens(tokenizer, ids)
    return encoded


class _StrictTrainer(Trainer):
    """Rejects a checkpoint that lacks weights, for which the Trainer would keep random ones."""

    def _issue_warnings_after_load(self, load_result: Any) -> None:
        missing = sorted({*load_result.missing_keys} - {*getattr(self.model, "all_tied_weights_keys", ())})
        if missing:
            raise ModelError(f"expected all weights in the last checkpoint, got none for {missing[0]}; remove the folder.")


class KeepLastCheckpoint(TrainerCallback):
    """Renames a checkpoint once it is complete, and removes all others."""

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        folder = Path(args.output_dir or "")
        complete = folder / f"{COMPLETE}{state.global_step}"
        publish(folder / f"checkpoint-{state.global_step}", complete)
        for other in folder.iterdir():
            if other != complete:
                shutil.rmtree(other)


def last_checkpoint(folder: Path) -> Path | None:
    """Return the last complete checkpoint; None if there is none."""
    complete = sorted(folder.glob(f"{COMPLETE}*"), key=lambda path: int(path.name.removeprefix(COMPLETE)))
    return complete[-1] if complete else None


class _AdvanceBar(TrainerCallback):
    """Advances a progress bar with every step."""

    def __init__(self, bar: WorkBar) -> None:
        self.bar = bar

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self.bar.expect(state.max_steps)
        self.bar.advance(state.global_step)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self.bar.advance(1)


@contextmanager
def _seeded(device: torch.device, seed: int) -> Iterator[None]:
    """Seed torch, and restore all generators afterwards, because the Trainer seeds those of the whole process."""
    python, numpy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            torch.manual_seed(seed)
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)


def check_trainable(model: Model) -> None:
    """Raise unless the model can be trained as a classifier of texts."""
    require_package("accelerate", "finetune", "fine-tuning needs the package accelerate")
    config = model.backbone.config
    has_classifier = type(config) in AutoModelForSequenceClassification._model_mapping
    if takes_images(model.network) or config.is_encoder_decoder or not has_classifier:
        raise UnsupportedModelError(
            f"the {config.model_type} family cannot be fine-tuned to classify texts; use an encoder such as BERT, or a decoder."
        )
    padding = padding_tokenizer(model).pad_token_id
    if config.pad_token_id not in (None, padding):
        raise UnsupportedModelError(
            f"expected {model.name} and its tokenizer to agree on the padding token, got {config.pad_token_id} and {padding}; "
            f"set pad_token_id in the model's config.json."
        )


def classifier_of(model: Model, labels: int = 2) -> Any:
    """Return a Hugging Face classifier with a copy of the model's weights in float32 and a random head."""
    config = copy.deepcopy(model.backbone.config)
    config.num_labels = labels
    config.problem_type = "single_label_classification"
    config.pad_token_id = padding_tokenizer(model).pad_token_id
    network = AutoModelForSequenceClassification.from_config(config, dtype=torch.float32)
    # Modules that the classifier lacks, such as a pooler, are dropped.
    missing = network.base_model.load_state_dict(model.backbone.state_dict(), strict=False).missing_keys
    if missing:
        raise UnsupportedModelError(f"expected all weights of the classifier in {model.name}, got none for {missing[0]}.")
    return network


def padding_tokenizer(model: Model) -> Any:
    """Return a copy of the model's tokenizer with a padding token, the end-of-text token if it had none."""
    tokenizer = copy.deepcopy(model.tokenizer)
    if tokenizer.pad_token_id is None:
        if tokenizer.eos_token is None:
            raise UnsupportedModelError(
                f"the tokenizer of {model.name} has no token to pad texts with, nor one for their end; set its pad_token."
            )
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer
