"""A classifier of two labels with a new head, and a tokenizer that can pad."""

import copy
import importlib.util
from typing import Any

import torch
from transformers import AutoModelForSequenceClassification

from identiformer.errors import MissingPackageError, UnsupportedModelError
from identiformer.models.encoding.image_audio import takes_images
from identiformer.models.model import Model


def check_trainable(model: Model) -> None:
    """Raise unless the model can be trained as a classifier of texts."""
    if importlib.util.find_spec("accelerate") is None:
        raise MissingPackageError("fine-tuning needs the package accelerate; run: pip install 'identiformer[finetune]'")
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


def classifier_of(model: Model) -> Any:
    """Return a Hugging Face classifier with a copy of the model's weights in float32 and a random head."""
    config = copy.deepcopy(model.backbone.config)
    config.num_labels = 2
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
