"""A model whose weights are random: every array of weights keeps its numbers, in random order."""

from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from identiformer.models.loaded import AnyModel, LoadedModel
from identiformer.models.replica import replica_of

_made: WeakKeyDictionary[LoadedModel, dict[int, Any]] = WeakKeyDictionary()
"""Permuting takes seconds, and all texts of a corpus share it."""
_making = Lock()


def with_random_weights(model: AnyModel, seed: int) -> AnyModel:
    """The model with the entries of each of its weights and biases permuted at random; the model itself is left as it is.

    Permuted weights have the scale of trained ones, so hidden states stay in range and attention is not merely uniform, as it is
    nearly in a model that was just initialized. Weights that two layers share stay shared.
    """
    with _making:
        known = _made.setdefault(model, {})
        if seed not in known:
            known[seed] = _permute(model, seed)
        return known[seed]


def _permute(model: AnyModel, seed: int) -> AnyModel:
    generator = torch.Generator().manual_seed(seed)
    network = replica_of(model.network)
    permuted: dict[int, nn.Parameter] = {}
    for module in network.modules():
        for name, parameter in module._parameters.items():
            if parameter is None:
                continue
            if id(parameter) not in permuted:
                permuted[id(parameter)] = nn.Parameter(_shuffled(parameter.detach(), generator), requires_grad=False)
            module._parameters[name] = permuted[id(parameter)]
    return type(model)(network, model.tokenizer, f"{model.name} with random weights {seed}", model.max_length, model.memory)


def _shuffled(weights: Tensor, generator: torch.Generator) -> Tensor:
    order = torch.randperm(weights.numel(), generator=generator).to(weights.device)
    return weights.flatten()[order].reshape(weights.shape)
