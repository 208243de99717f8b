"""Find where a model's input vectors x stand: before the embedding's normalization, where it has one."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn


def _is_norm(module: nn.Module) -> bool:
    return "norm" in type(module).__name__.lower() and not list(module.children())


def _maps(module: nn.Module) -> bool:
    """Whether a module maps by a matrix of its own: a linear map, or as XLNet's attention one that holds its maps as they are."""
    return not isinstance(module, nn.Embedding) and any(parameter.ndim > 1 for parameter in module.parameters(recurse=False))


def input_norm(network: nn.Module, run: Callable[[], Any]) -> nn.Module | None:
    """The module that is fed x, the sum of the token, position and segment embeddings; None if it is the first block itself.

    It is the first normalization of a forward pass, unless vectors were mapped before. In BERT and its kin it follows the
    embeddings. Where blocks begin with one (GPT-2, Llama) it is that of the first block, which is fed x just so.
    """
    called: list[nn.Module] = []

    def on_input(module: nn.Module, arguments: tuple[Any, ...]) -> None:
        if arguments and isinstance(arguments[0], Tensor) and arguments[0].is_floating_point():
            called.append(module)

    modules = [module for module in network.modules() if _is_norm(module) or _maps(module)]
    hooks = [module.register_forward_pre_hook(on_input) for module in modules]
    try:
        with torch.no_grad():
            run()
    finally:
        for hook in hooks:
            hook.remove()
    return called[0] if called and _is_norm(called[0]) else None


@contextmanager
def first_input(module: nn.Module | None) -> Iterator[list[Tensor]]:
    """Within this context, what the module is fed when it is first called stands in the list."""
    found: list[Tensor] = []

    def keep(_: nn.Module, arguments: tuple[Any, ...]) -> None:
        if not found:
            found.append(arguments[0].detach().clone())

    hook = module.register_forward_pre_hook(keep) if module is not None else None
    try:
        yield found
    finally:
        if hook is not None:
            hook.remove()
