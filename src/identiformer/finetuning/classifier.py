"""A model with a fresh head that tells two labels apart, and a tokenizer that can pad."""

import copy
from typing import Any

import torch
from transformers import AutoModelForSequenceClassification

from identiformer.errors import UnsupportedModelError
from identiformer.models.encoding.image_audio import takes_images
from identiformer.models.model import Model


def check_classifiable(model: Model) -> None:
    """Refuse a model of which no classifier of texts can be made."""
    config = model.backbone.config
    known = type(config) in AutoModelForSequenceClassification._model_mapping
    if takes_images(model.network) or config.is_encoder_decoder or not known:
        raise UnsupportedModelError(
            f"the {config.model_type} family cannot be fine-tuned to classify texts here; take an encoder such as BERT, or a "
            f"decoder."
        )
    padding = padding_tokenizer(model).pad_token_id
    if config.pad_token_id not in (None, padding):
        raise UnsupportedModelError(
            f"expected {model.name} and its tokenizer to agree on the padding token, got {config.pad_token_id} and {padding}; "
            f"set pad_token_id in the model's config.json."
        )


def classifier_of(model: Model) -> Any:
    """A Hugging Face classifier with a copy of the model's weights, in float32; its head is drawn by chance."""
    config = copy.deepcopy(model.backbone.config)
    config.num_labels = 2
    config.problem_type = "single_label_classification"
    config.pad_token_id = padding_tokenizer(model).pad_token_id
    network = AutoModelForSequenceClassification.from_config(config, dtype=torch.float32)
    # What the backbone has beyond it, such as a pooler that this classifier does without, is left behind.
    missing = network.base_model.load_state_dict(model.backbone.state_dict(), strict=False).missing_keys
    if missing:
        raise UnsupportedModelError(f"{model.name} lacks weights that its classifier needs, {missing[0]} among them.")
    return network


def padding_tokenizer(model: Model) -> Any:
    """A copy of the model's tokenizer that has a padding token: in decoders without one, the end of a text."""
    tokenizer = copy.deepcopy(model.tokenizer)
    if tokenizer.pad_token_id is None:
        if tokenizer.eos_token is None:
            raise UnsupportedModelError(
                f"the tokenizer of {model.name} has no token to pad texts with, nor one that ends them; give it a pad_token."
            )
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer
