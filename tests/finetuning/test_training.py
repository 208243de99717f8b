"""Classifiers made from models: what is copied, what is not changed, and which models are rejected."""

import random

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from identiformer.errors import InputError, ModelError, UnsupportedModelError
from identiformer.finetuning.training import Recipe, _seeded, check_trainable, classifier_of, last_checkpoint, train_classifier
from identiformer.models import load
from identiformer.texts import read_labeled
from tests.glue import write_glue
from tests.models.families import ENCODER_DECODERS, SERVED, build, word_tokenizer

AGREEING = [family for family in SERVED if family not in ("roberta", "opt")]
"""Families whose padding token, if any, is that of the tokenizer."""


def ending_tokenizer():
    """The tokenizer of a decoder, with an end-of-text token and no padding token."""
    tokenizer = word_tokenizer()
    tokenizer.pad_token, tokenizer.eos_token = None, "[SEP]"
    return tokenizer


def train(model, folder, **recipe):
    data = write_glue(folder, train=40, dev=20)
    splits = (read_labeled(data, "MRPC", split) for split in ("train", "dev"))
    return train_classifier(model, *splits, Recipe(epochs=1, **recipe), folder / "checkpoints", progress=False)


def test_model_tokenizer_and_generators_are_not_changed(tmp_path):
    network, tokenizer = build("bert", SERVED["bert"]), word_tokenizer()
    before = {name: weights.clone() for name, weights in network.state_dict().items()}
    kept, called = tokenizer.backend_tokenizer.to_str(), tokenizer("w1 w2", "w3")
    states = np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    trained = train(load(network, tokenizer), tmp_path, learning_rate=0.1)
    assert (np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()) == states
    assert not network.training
    assert all(torch.equal(weights, before[name]) for name, weights in network.state_dict().items())
    assert any(not torch.equal(weights, before[name]) for name, weights in trained.network.base_model.state_dict().items())
    assert (tokenizer.backend_tokenizer.to_str(), tokenizer("w1 w2", "w3")) == (kept, called)
    assert trained.tokenizer.backend_tokenizer.to_str() == kept


def test_the_generator_of_python_is_restored():
    # Without training, during which the type checker draws from the same generator.
    before = random.getstate()
    with _seeded(torch.device("cpu"), 0):
        random.seed(0)
    assert random.getstate() == before


@pytest.mark.parametrize("family", AGREEING)
def test_a_classifier_has_the_backbone_of_the_model(family):
    model = load(build(family, SERVED[family]), word_tokenizer())
    check_trainable(model)
    theirs = classifier_of(model).base_model.state_dict()
    assert theirs
    assert all(torch.equal(weights, model.network.state_dict()[name]) for name, weights in theirs.items())


def test_half_precision_is_trained_in_float32():
    network = build("bert", SERVED["bert"]).to(torch.bfloat16)
    assert classifier_of(load(network, word_tokenizer())).dtype == torch.float32
    assert network.dtype == torch.bfloat16


def test_a_decoder_without_a_padding_token_pads_with_the_end(tmp_path):
    tokenizer = ending_tokenizer()
    trained = train(load(build("gpt2", SERVED["gpt2"]), tokenizer), tmp_path)
    assert tokenizer.pad_token is None
    assert trained.network.config.pad_token_id == trained.tokenizer.pad_token_id == 3
    assert trained.predictions.shape == (20,)


def test_texts_are_cut_to_the_length_of_the_model(tmp_path):
    model = load(build("bert", {**SERVED["bert"], "max_position_embeddings": 6}), word_tokenizer())
    assert set(train(model, tmp_path).predictions) <= {0, 1}


def test_models_that_cannot_be_trained_are_rejected():
    nothing_to_pad_with = ending_tokenizer()
    nothing_to_pad_with.eos_token = None
    for network, tokenizer, message in (
        (build("gpt2", SERVED["gpt2"]), nothing_to_pad_with, "no token to pad texts with"),
        (build("roberta", SERVED["roberta"]), word_tokenizer(), "agree on the padding token, got 1 and 0"),
        (build("t5", ENCODER_DECODERS["t5"]), word_tokenizer(), "the t5 family cannot be fine-tuned"),
    ):
        with pytest.raises(UnsupportedModelError, match=message):
            check_trainable(load(network, tokenizer))


def test_invalid_recipes_are_rejected():
    with pytest.raises(InputError, match="at least one epoch, got 0"):
        Recipe(epochs=0)
    with pytest.raises(InputError, match="a seed from 0"):
        Recipe(seed=-1)


def test_a_checkpoint_without_all_weights_is_rejected(tmp_path):
    model = load(build("bert", SERVED["bert"]), word_tokenizer())
    train(model, tmp_path)
    checkpoint = last_checkpoint(tmp_path / "checkpoints")
    weights = load_file(checkpoint / "model.safetensors")
    lost = weights.pop("bert.encoder.layer.1.attention.self.query.weight")
    assert lost.shape == (32, 32)
    save_file(weights, checkpoint / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError, match=r"bert\.encoder\.layer\.1\.attention\.self\.query\.weight"):
        train(model, tmp_path)


def test_a_tokenizer_of_another_model_is_rejected_before_training(tmp_path):
    model = load(build("bert", {**SERVED["bert"], "vocab_size": 20}), word_tokenizer())
    with pytest.raises(InputError, match=r"token ids below 20, .* load the tokenizer that belongs to the model"):
        train(model, tmp_path)
    assert not (tmp_path / "checkpoints").exists()
