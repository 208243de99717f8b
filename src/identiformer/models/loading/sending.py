"""A network in a form that can be sent to another process: what it is built from, and its weights.

The network itself cannot be pickled once it has run, because it then holds hooks of transformers.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from identiformer.errors import UnsupportedModelError
from identiformer.models.offloaded import is_offloaded

ADAPTER_STATE = ("_active_adapter", "_disable_adapters", "merged_adapters")
"""What a module with adapters notes besides weights: which of them apply, and which its own weight contains."""


class SentNetwork(NamedTuple):
    """What a network is built from."""

    kind: type
    config: Any
    generation_config: Any
    """What a language model stops at and which tokens it may not write; None for other models."""
    adapters: dict[str, Any]
    adapter_states: list[dict[str, Any]]
    weights: dict[str, Tensor]
    device: torch.device

    @classmethod
    def of(cls, network: Any, name: str) -> "SentNetwork":
        """The parts of a network; raises if another could not be built from them."""
        if any(map(is_offloaded, network.modules())):
            raise _cannot_be_sent(name, "keeps weights on disk")
        states = [{key: vars(module)[key] for key in ADAPTER_STATE} for module in _adapted(network)]
        weights, adapters = network.state_dict(), getattr(network, "peft_config", {})
        generation = getattr(network, "generation_config", None)
        sent = cls(type(network), network.config, generation, adapters, states, weights, network.device)
        with torch.device("meta"):
            try:
                keys = sent.empty().state_dict().keys()
            except ValueError as error:  # of peft
                raise _cannot_be_sent(name, "has adapters that peft cannot build in a copy of it") from error
            if keys != weights.keys():
                raise _cannot_be_sent(name, "has modules that its configuration does not describe, as for quantized weights")
        return sent

    def empty(self) -> Any:
        """A network of the same modules, with weights of its own."""
        network = self.kind(self.config)
        for name, settings in self.adapters.items():
            import peft

            peft.inject_adapter_in_model(settings, network, adapter_name=name)
        return network

    def built(self) -> Any:
        """The network."""
        network = self.empty()
        network.load_state_dict(self.weights, assign=True)
        if self.generation_config is not None:
            network.generation_config = self.generation_config
        for module, state in zip(_adapted(network), self.adapter_states, strict=True):
            vars(module).update(state)
        return network.to(self.device).eval()


def _adapted(network: Any) -> list[Any]:
    """The modules of peft in a network."""
    return [module for module in network.modules() if all(key in vars(module) for key in ADAPTER_STATE)]


def _cannot_be_sent(name: str, reason: str) -> UnsupportedModelError:
    return UnsupportedModelError(
        f"{name} {reason}, so it cannot be sent to another process; pass the name of the model instead of the model."
    )
