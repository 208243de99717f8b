"""Record attention that a module computes itself, outside transformers' attention interface.

All these modules have one thing in common: the output of a softmax, perhaps cast, masked or reshaped, is multiplied by values.
While such a module runs, its calls of torch are followed to that product, and the A and V in it are recorded. Nothing is assumed
about the scores, which may hold relative positions, ALiBi or segments.
"""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from identiformer.errors import UnsupportedModelError
from identiformer.models.attention.call import Call, received
from identiformer.models.attention.families import ADAPTERS, WATCHED
from identiformer.models.attention.softmax_products import ProductsOfSoftmax

HEAD_COUNTS = ("num_heads", "n_heads", "num_attention_heads", "n_head", "heads")


def watch_attention(kind: type[nn.Module]) -> type[nn.Module]:
    """Record the attention of a custom module class that does not use transformers' attention interface.

    Its forward pass must compute one softmax and multiply the result by values once. If the class does
    something else, a trace raises UnsupportedModelError, so that nothing wrong is recorded.

    Parameters
    ----------
    kind : type
        The class of the attention module.

    Returns
    -------
    type
        The same class, so that the function can be used as a decorator.

    Examples
    --------
    >>> import torch
    >>> import identiformer as idf
    >>> @idf.watch_attention
    ... class MyAttention(torch.nn.Module):
    ...     def forward(self, query, key, value):
    ...         return (query @ key.mT).softmax(-1) @ value
    """
    WATCHED.add(_name(kind))
    return kind


def attends_outside_interface(model: nn.Module) -> bool:
    """Whether some module of a model is known to compute attention itself."""
    kinds = {type(module) for module in model.modules()}
    return any(_names(kind) & (WATCHED | ADAPTERS.keys()) for kind in kinds)


@cache
def _names(kind: type) -> frozenset[str]:
    """The names of a class and its bases; cached, because all modules are looked up at every run."""
    return frozenset(map(_name, kind.__mro__))


def _name(kind: type) -> str:
    """The package and name of a class in transformers; the full path of any other."""
    match = re.fullmatch(r"transformers\.models\.(\w+)\.\w+", kind.__module__)
    return f"{match[1] if match else kind.__module__}.{kind.__qualname__}"


@contextmanager
def watching(model: nn.Module) -> Iterator[None]:
    """Send the attention of all modules that compute it themselves to the current receiver."""
    with ExitStack() as undo:
        if attends_outside_interface(model):
            for module in list(model.modules()):
                for name in _names(type(module)) & ADAPTERS.keys():
                    undo.enter_context(ADAPTERS[name](module))
            for module in model.modules():  # again: an adapter may have replaced modules
                if _names(type(module)) & WATCHED:
                    _watch(module, undo)
        yield


def _watch(module: nn.Module, undo: ExitStack) -> None:
    forward = module.forward

    def run(*arguments: Any, **named: Any) -> Any:
        with _Watch(module) as watch:
            result = forward(*arguments, **named)
        if watch.products != 1:
            raise UnsupportedModelError(
                f"expected {type(module).__name__} to multiply the output of a softmax by values once, but it did so "
                f"{watch.products} times; its attention cannot be recorded."
            )
        return result

    if "forward" in vars(module):  # as in a model that is split over devices
        undo.callback(setattr, module, "forward", forward)
    undo.callback(delattr, module, "forward")
    module.forward = run


class _Watch(ProductsOfSoftmax):
    """Records the attention of one forward pass of a module."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self._module = module
        self.products = 0

    def on_kernel(
        self, result: Tensor, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, **named: Any
    ) -> Tensor:
        """Compute the weights, which a fused kernel does not return."""
        if isinstance(result, tuple):
            raise UnsupportedModelError(f"{type(self._module).__name__} attends by a function of torch that cannot be recorded.")
        self.products += 1
        scaling = named.get("scale") or query.shape[-1] ** -0.5
        scores = query @ key.mT * scaling
        if named.get("is_causal"):
            scores = scores + torch.full_like(scores[0, 0], -torch.inf).triu(1)
        if attn_mask is not None:
            scores = scores.masked_fill(~attn_mask, -torch.inf) if attn_mask.dtype == torch.bool else scores + attn_mask
        output = result.transpose(1, 2)
        call = Call(self._module, value, output, scores.softmax(-1), query=query, key=key, scaling=scaling, scores=scores)
        head_outputs = received(call)
        return result if head_outputs is output else head_outputs.transpose(1, 2)

    def on_product(self, result: Tensor, equation: str, scores: Tensor, weights: Tensor, values: Tensor, /) -> Tensor:
        self.products += 1
        layout = _layout_of_einsum(equation) if equation else _layout_of_matmul(weights, scores, self._module)
        output = layout.arranged(result, layout.output)
        value, weights, scores = (
            layout.arranged(tensor, axes)
            for tensor, axes in ((values, layout.values), (weights, layout.weights), (scores, layout.weights))
        )
        head_outputs = received(Call(self._module, value, output, weights, scores=scores))
        return result if head_outputs is output else layout.restored(head_outputs)


@dataclass(frozen=True)
class _Layout:
    """The axes of a product that become (batch head query key), (batch group key width) and (batch query head width)."""

    weights: tuple[int, ...]
    values: tuple[int, ...]
    output: tuple[int, ...]
    merged_heads: int | None = None
    """The number of heads, where one axis holds batch and heads."""

    def arranged(self, tensor: Tensor, axes: tuple[int, ...]) -> Tensor:
        """A tensor with its axes in this order, batch and heads apart."""
        if self.merged_heads is not None and tensor.ndim != 4:
            tensor = tensor.unflatten(0, (-1, self.merged_heads))
        return tensor.permute(axes)

    def restored(self, output: Tensor) -> Tensor:
        """Head outputs in the layout of the product."""
        tensor = output.permute(tuple(self.output.index(axis) for axis in range(4)))
        return tensor if self.merged_heads is None else tensor.flatten(0, 1)


def _layout_of_matmul(weights: Tensor, scores: Tensor, module: nn.Module) -> _Layout:
    """The layout of a matrix product with four axes, or with three where batch and heads are one."""
    heads = None
    if weights.ndim == 3:
        counts = (getattr(module, name, None) for name in HEAD_COUNTS)
        heads = scores.shape[1] if scores.ndim == 4 else next((count for count in counts if isinstance(count, int)), None)
    if weights.ndim not in (3, 4) or (weights.ndim == 3 and (heads is None or weights.shape[0] % heads)):
        raise UnsupportedModelError(
            f"expected the attention of {type(module).__name__} as (batch head query key), got {tuple(weights.shape)}; it cannot "
            "be recorded."
        )
    return _Layout((0, 1, 2, 3), (0, 1, 2, 3), (0, 2, 1, 3), heads)


def _layout_of_einsum(equation: str) -> _Layout:
    """The layout of an einsum: the labels that all three tensors share are batch and head, in the order of the weights."""
    inputs, output = equation.replace(" ", "").split("->")
    weights, values = inputs.split(",")
    shared = [label for label in weights if label in values and label in output]
    key = [label for label in weights if label in values and label not in output]
    query = [label for label in weights if label not in values]
    width = [label for label in values if label not in weights]
    if [len(labels) for labels in (shared, key, query, width)] != [2, 1, 1, 1]:
        raise UnsupportedModelError(f"expected a product of weights and values, got {equation}; it cannot be recorded.")
    batch, head = shared

    def axes(labels: str, *order: str) -> tuple[int, ...]:
        return tuple(labels.index(label) for label in order)

    return _Layout(
        axes(weights, batch, head, *query, *key),
        axes(values, batch, head, *key, *width),
        axes(output, batch, *query, head, *width),
    )
