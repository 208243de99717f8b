"""Tiny models for the tests of attribution."""

import torch

from tests.models.families import ENCODER_DECODERS, SERVED, build, words

TEXT = words(6)
EVERY = {**SERVED, **ENCODER_DECODERS}


def network_of(family: str):
    """Build a tiny model whose norms weigh features differently; otherwise the sum of a normalized vector is constant."""
    network = build(family, EVERY[family])
    generator = torch.Generator().manual_seed(5)
    for name, parameter in network.named_parameters():
        if "norm" in name.lower() or ".ln_" in name or name.startswith("ln_"):
            parameter.data += 0.3 * torch.randn(parameter.shape, generator=generator)
    return network
