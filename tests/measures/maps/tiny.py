"""Subjects of tiny random models with task heads."""

import torch
import transformers
from transformers import AutoConfig

from identiformer.models import load
from identiformer.passage import Passage
from identiformer.texts import Example
from tests.models.families import SERVED, word_tokenizer

TEXT = "w3 w1 w4 w1 w5 w9"


def tiny_network(family, task="", *, double=True, **settings):
    """A network of this family; task is "SequenceClassification", "CausalLM" or empty for the backbone."""
    torch.manual_seed(1)
    config = AutoConfig.for_model(family, **{**SERVED[family], "pad_token_id": 0, **settings})
    # Weights as large as in trained models: with the usual ones attention is uniform and a tiny model nearly linear.
    config.initializer_range = 0.3
    network = getattr(transformers, f"AutoModel{'For' if task else ''}{task}").from_config(config).eval().requires_grad_(False)
    return network.double() if double else network


def tiny_subject(family, task="", text=TEXT, **settings):
    return Passage.of(load(tiny_network(family, task, **settings), word_tokenizer()), Example(text, None))
