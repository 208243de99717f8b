"""Tiny models in double precision whose biases and effects are not nearly zero."""

import torch

from tests.models.families import ENCODER_DECODERS, SERVED, build

EVERY = {**SERVED, **ENCODER_DECODERS}
MIXTURES = ("gpt_oss", "deepseek_v3")  # of experts, which torch multiplies in single precision only


def network_of(family: str, **settings):
    """A tiny model, in double precision where it can be, with biases and effects that are not nearly zero."""
    network = build(family, {**EVERY[family], **settings})
    network = network if family in MIXTURES else network.double()
    generator = torch.Generator().manual_seed(5)
    for parameter in network.parameters():
        parameter.data += 0.2 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
    return network
