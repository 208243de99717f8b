"""Record attention that a module computes by itself, outside transformers' attention interface.

While such a module runs, its calls of torch are watched: what the softmax gave, perhaps cast, masked or reshaped, is multiplied
with the values somewhere, and that product is the one seam that all these families share. Nothing is assumed of how the scores
came about (relative positions, ALiBi, segments): what is recorded is the very A and V of the product A·V that the model goes on
with, whatever the scores hold.
"""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from identiformer.errors import UnsupportedModelError
from identiformer.models.attention.call import OWN_SCORES, Call, Handover
from identiformer.models.attention.families import ADAPTERS, WATCHED
from identiformer.models.attention.softmax_products import ProductsOfSoftmax

HEAD_COUNTS = ("num_heads", "n_heads", "num_attention_heads", "n_head", "heads")


def watch_attention(kind: type[nn.Module]) -> type[nn.Module]:
    """Say that modules of this class attend by a softmax and one product with values; also usable as a decorator.

    Needed only of classes of one's own that do not call transformers' attention interface. Of a class that does something else
    nothing false is recorded: a trace through it is refused.
    """
    WATCHED.add(_name(kind))
    return kind


def attends_by_itself(model: nn.Module) -> bool:
    """Whether some module of a model attends outside the interface, and is known to."""
    kinds = {type(module) for module in model.modules()}
    return any(_names(kind) & (WATCHED | ADAPTERS.keys()) for kind in kinds)


@cache
def _names(kind: type) -> frozenset[str]:
    """The names of a class and of those that it derives from; kept, since models are looked through at every run."""
    return frozenset(map(_name, kind.__mro__))


def _name(kind: type) -> str:
    """A class by its package and name in transformers, any other by its full path."""
    found = re.fullmatch(r"transformers\.models\.(\w+)\.\w+", kind.__module__)
    return f"{found[1] if found else kind.__module__}.{kind.__qualname__}"


@contextmanager
def watching(model: nn.Module, hand_over: Handover) -> Iterator[None]:
    """Within this context every attention of watched modules is handed over; afterwards the modules are as they were."""
    if not attends_by_itself(model):
        yield
        return
    with ExitStack() as undo:
        for module in list(model.modules()):
            for name in _names(type(module)) & ADAPTERS.keys():
                undo.enter_context(ADAPTERS[name](module, hand_over))
        for module in model.modules():  # looked up anew: an adapter may have put in modules to watch
            if _names(type(module)) & WATCHED:
                undo.enter_context(_watched(module, hand_over))
        yield


@contextmanager
def _watched(module: nn.Module, hand_over: Handover) -> Iterator[None]:
    own, forward = module.__dict__.get("forward"), module.forward

    def run(*arguments: Any, **named: Any) -> Any:
        watch = _Watch(module, hand_over)
        with watch:
            result = forward(*arguments, **named)
        if watch.found != 1:
            raise UnsupportedModelError(
                f"expected {type(module).__name__} to multiply what a softmax gives with values once, but it did so "
                f"{watch.found} times; its attention cannot be recorded."
            )
        return result

    module.forward = run
    try:
        yield
    finally:
        del module.forward
        if own is not None:  # as a model has that is split over devices
            module.forward = own


class _Watch(ProductsOfSoftmax):
    """Hand over the attention of one module's forward pass."""

    def __init__(self, module: nn.Module, hand_over: Handover) -> None:
        super().__init__()
        self._module, self._hand_over = module, hand_over
        self.found = 0

    def on_kernel(
        self, result: Tensor, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, **named: Any
    ) -> Tensor:
        """A fused kernel gives no weights: they are computed beside it, and A·V is what it gave."""
        if isinstance(result, tuple):
            raise UnsupportedModelError(
                f"{type(self._module).__name__} attends by a function of torch's that cannot be recorded."
            )
        self.found += 1
        scaling = named.get("scale") or query.shape[-1] ** -0.5
        scores = query @ key.mT * scaling
        if named.get("is_causal"):
            scores = scores + torch.full_like(scores[0, 0], -torch.inf).triu(1)
        if attn_mask is not None:
            scores = scores.masked_fill(~attn_mask, -torch.inf) if attn_mask.dtype == torch.bool else scores + attn_mask
        output = result.transpose(1, 2)
        weights = scores.softmax(-1)
        extras = frozenset({OWN_SCORES})
        call = Call(self._module, query, key, value, output, weights, None, False, scaling, extras, scores)
        replaced = self._hand_over(call)
        return result if replaced is output else replaced.transpose(1, 2)

    def on_product(self, result: Tensor, equation: str, scores: Tensor, weights: Tensor, values: Tensor, /) -> Tensor:
        self.found += 1
        layout = _by_labels(equation) if equation else _by_axes(weights, scores, self._module)
        output = layout.output(result)
        call = Call(
            module=self._module,
            query=None,
            key=None,
            value=layout.values(values),
            output=output,
            weights=layout.weights(weights),
            mask=None,
            causal=False,
            scaling=1.0,
            extras=frozenset({OWN_SCORES}),
            scores=layout.scores(scores),
        )
        replaced = self._hand_over(call)
        return result if replaced is output else layout.back(replaced)


class _Layout:
    """How one product's tensors become (batch head query key), (batch group key width) and (batch query head width)."""

    def __init__(self, weights: tuple[int, ...], values: tuple[int, ...], output: tuple[int, ...], merged: int | None) -> None:
        self._weights, self._values, self._output, self._merged = weights, values, output, merged

    def _whole(self, tensor: Tensor) -> Tensor:
        """Batch and heads apart, where one axis holds both."""
        return tensor if self._merged is None or tensor.ndim == 4 else tensor.unflatten(0, (-1, self._merged))

    def weights(self, tensor: Tensor) -> Tensor:
        return self._whole(tensor).permute(self._weights)

    scores = weights

    def values(self, tensor: Tensor) -> Tensor:
        return self._whole(tensor).permute(self._values)

    def output(self, tensor: Tensor) -> Tensor:
        return self._whole(tensor).permute(self._output)

    def back(self, output: Tensor) -> Tensor:
        own = output.permute(tuple(self._output.index(axis) for axis in range(4)))
        return own if self._merged is None else own.flatten(0, 1)


def _by_axes(weights: Tensor, scores: Tensor, module: nn.Module) -> _Layout:
    """The layout of a matrix product: of four axes, or of three where batch and heads are one."""
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


def _by_labels(equation: str) -> _Layout:
    """The layout of an einsum: what all three share are batch and head, in the order in which the weights have them."""
    inputs, output = equation.replace(" ", "").split("->")
    weights, values = inputs.split(",")
    both = [label for label in weights if label in values and label in output]
    key = [label for label in weights if label in values and label not in output]
    query = [label for label in weights if label not in values]
    width = [label for label in values if label not in weights]
    if [len(each) for each in (both, key, query, width)] != [2, 1, 1, 1]:
        raise UnsupportedModelError(f"expected a product of weights and values, got {equation}; it cannot be recorded.")
    batch, head = both

    def places(labels: str, *order: str) -> tuple[int, ...]:
        return tuple(labels.index(label) for label in order)

    return _Layout(
        places(weights, batch, head, *query, *key),
        places(values, batch, head, *key, *width),
        places(output, batch, *query, head, *width),
        None,
    )
