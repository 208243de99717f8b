"""Find where a model's input vectors x stand: before the embedding's normalisation, where it has one."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from identiformer.models.layout import LINEAR


def _is_norm(module: nn.Module) -> bool:
    return "norm" in type(module).__name__.lower() and not list(module.children())


def input_norm(network: nn.Module, run: Callable[[], Any]) -> nn.Module | None:
    """The module that is fed x, the sum of the token, position and segment embeddings; None if it is the first block itself.

    It is the first normalisation of a forward pass, unless a linear map came before. In BERT and its kin it follows the
    embeddings. Where blocks begin with one (GPT-2, Llama) it is that of the first block, which is fed x just so.
    """
    called: list[nn.Module] = []
    modules = [module for module in network.modules() if _is_norm(module) or isinstance(module, LINEAR)]
    hooks = [module.register_forward_pre_hook(lambda module, _: called.append(module)) for module in modules]
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
