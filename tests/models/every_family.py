"""Tiny models of every family that is supported."""

from functools import cache

import torch

from identiformer.models import load
from tests.models.families import ENCODER_DECODERS, OUTSIDE_THE_INTERFACE, SERVED, build, word_tokenizer

TOKENIZER = word_tokenizer()
FAMILIES = {**SERVED, **ENCODER_DECODERS, **OUTSIDE_THE_INTERFACE}


def network_of(family):
    """A tiny model; outside the interface with larger weights, so that relative positions and biases matter."""
    network = build(family, FAMILIES[family])
    if family in OUTSIDE_THE_INTERFACE:
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.add_(torch.randn_like(parameter), alpha=0.15)
    return network


def model_of(family):
    return load(network_of(family), TOKENIZER)


@cache
def shared_model_of(family):
    """One model for all tests that leave it as it is, with what it finds out when it first runs."""
    return model_of(family)
