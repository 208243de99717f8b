"""Weights that accelerate keeps elsewhere, on disk or in memory next to a GPU, and brings in while their module runs."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from identiformer.models.replica import replica_of


def is_offloaded(module: nn.Module) -> bool:
    """Whether accelerate brings in weights of this module, not counting its submodules, when it runs."""
    hook = getattr(module, "_hf_hook", None)
    hooks = getattr(hook, "hooks", (hook,))  # several in a row, or one
    has_weights = next(module.parameters(recurse=False), None) is not None
    return has_weights and any(getattr(hook, "offload", False) for hook in hooks)


def with_weights(module: Any) -> Any:
    """A module with its weights: itself, or a replica that holds those that are offloaded, for as long as it exists."""
    if not any(map(is_offloaded, module.modules())):
        return module
    replica = replica_of(module)
    for part in replica.modules():
        if is_offloaded(part):
            bring_in(part)
    return replica


def bring_in(module: Any) -> None:
    """Put the offloaded weights of a module of a replica into memory, and run it without accelerate from now on."""
    hook = module._hf_hook
    hook.pre_forward(module)
    weights, buffers = dict(module._parameters), dict(module._buffers)
    hook.post_forward(module, None)  # forgets the weights in its own tables too
    module._parameters.update(weights)
    module._buffers.update(buffers)
    del module._hf_hook, module.forward
    original = vars(module).pop("_old_forward")
    if getattr(original, "__func__", None) is not type(module).forward:
        module.forward = original


def device_of(module: Any) -> torch.device:
    """The device that the inputs of a network or module belong on; its weights may be on none."""
    chosen = getattr(getattr(module, "_hf_hook", None), "execution_device", None)
    if chosen is not None:
        return torch.device(chosen)
    tensors = (*module.parameters(), *module.buffers())
    return next((tensor.device for tensor in tensors if not tensor.is_meta), torch.device("cpu"))


def stored_tensors(network: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """The entries of a network's state, in order; offloaded ones are brought in one module at a time."""
    path, brought_in = None, network
    for name, tensor in network.state_dict().items():
        owner, _, key = name.rpartition(".")
        if not tensor.is_meta:
            yield name, tensor
            continue
        if owner != path:
            path, brought_in = owner, with_weights(network.get_submodule(owner))
        yield name, getattr(brought_in, key).detach()
