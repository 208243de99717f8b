"""A model as a function of a change of the vectors by which its input tokens enter it."""

import copy
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from threading import RLock
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from identiformer.errors import UnsupportedModelError
from identiformer.models.attention.call import Call
from identiformer.models.attention.families.own_gradients import differentiated_within
from identiformer.models.attention.interface import WEIGHTS, recording
from identiformer.models.library_output import warning_filters

FORWARD_MODE = RLock()
"""Held while a model is differentiated forward: torch keeps the level at which it does, and what it patches while it traces,
for the whole process."""

EXPERTS = "batched_mm"
"""The way to compute a mixture of experts that torch can differentiate forward."""


@dataclass(frozen=True, eq=False)
class States:
    """What a run leaves behind."""

    hidden: tuple[Tensor, ...]
    """A layer each, (position width)."""
    calls: tuple[Call, ...]
    result: Any

    @property
    def head_outputs(self) -> tuple[Tensor, ...]:
        """A layer each, (head position width)."""
        return tuple(call.output[0].transpose(0, 1) for call in self.calls)


@dataclass(frozen=True, eq=False)
class Entry:
    """The module at whose door the input vectors x stand: the embedding LayerNorm, or else the first block.

    Where the embeddings reach later layers past that door too, it is the embedding itself, and x what it gives.
    """

    network: Any
    config: Any
    inputs: Mapping[str, Any]
    door: nn.Module
    behind: bool
    """Whether x is what the module at the door gives, not what it is fed."""
    point: Tensor
    """x, (position width)."""
    widths: tuple[int, ...]
    """How wide the hidden vectors of each layer are."""

    @property
    def family(self) -> str:
        return str(self.config.model_type)

    def run(self, change: Tensor) -> States:
        """The model's states when x + change enters; whether for reverse mode is as torch is set."""
        calls: list[Call] = []
        reverse = torch.is_grad_enabled()

        def on_input(_: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
            hook.remove()  # a block that serves several layers is entered by the input only once
            return with_input(arguments, named, lambda given: given + change.view_as(given))

        def on_output(_: nn.Module, __: tuple[Any, ...], given: Tensor) -> Tensor:
            hook.remove()
            return given + change.view_as(given)

        if self.behind:
            hook = self.door.register_forward_hook(on_output)
        else:
            hook = self.door.register_forward_pre_hook(on_input, with_kwargs=True)
        try:
            with differentiable_run(self.network, calls.append), torch.set_grad_enabled(reverse):
                result = self.network(**self.inputs, output_hidden_states=True)
        finally:
            hook.remove()
        return States(tuple(state[0] for state in hidden_states_of(result)[1:]), tuple(calls), result)

    @property
    def working_bytes(self) -> int:
        """About what one change takes on its way through a block: its hidden features, its scores, and copies of each."""
        config, (positions, width) = self.config, self.point.shape
        hidden = max(getattr(config, "intermediate_size", None) or 0, 4 * max(self.widths))
        heads = getattr(config, "num_attention_heads", None) or 1
        return self.point.element_size() * positions * (3 * hidden + 3 * heads * positions + 2 * width)

    @property
    def unchanged(self) -> Tensor:
        """No change: the point at which the model is differentiated."""
        return torch.zeros_like(self.point)


def with_input(
    arguments: tuple[Any, ...], named: dict[str, Any], change: Callable[[Tensor], Tensor]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a module with another input."""
    if arguments:
        return (change(arguments[0]), *arguments[1:]), named
    return arguments, {**named, "hidden_states": change(named["hidden_states"])}


class _PlainAttention(TorchFunctionMode):
    """torch's attention as plain products, which can be differentiated forward, in this thread alone.

    To choose among its kernels, as torch.nn.attention.sdpa_kernel does, is to choose for all threads of the process.
    """

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        if func is nn.functional.scaled_dot_product_attention:
            return _attention(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, *settings: Any, **named: Any
) -> Tensor:
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill(~attn_mask, -torch.inf)
    return torch.ops.aten._scaled_dot_product_attention_math(query, key, value, attn_mask, *settings, **named)[0]


@contextmanager
def differentiable_run(network: Any, receive: Callable[[Call], None]) -> Iterator[None]:
    """Attention recorded, and all computed in ways that torch can differentiate forward."""
    before = {module: dict(vars(module)) for module in network.modules()}
    try:
        with recording(network, WEIGHTS, receive, EXPERTS), _PlainAttention(), differentiated_within():
            yield
    finally:
        for module, own in before.items():  # some keep what a run leaves for the next (RecurrentGemma), and with it a graph
            for name, value in list(vars(module).items()):
                if isinstance(value, Tensor) and value is not own.get(name):
                    vars(module)[name] = own.get(name)


def hidden_states_of(result: Any) -> tuple[Tensor, ...]:
    """The hidden states that a run gives out, of an encoder-decoder those of its encoder."""
    states = getattr(result, "hidden_states", None)
    return getattr(result, "encoder_hidden_states", ()) or () if states is None else states


def in_float32(network: Any) -> Any:
    """The network in the precision that derivatives need: itself, or a copy where its weights are in half precision."""
    kinds = {parameter.dtype for parameter in network.parameters()}
    if kinds <= {torch.float32, torch.float64}:
        return network
    if getattr(network, "is_quantized", False) or not all(kind.is_floating_point for kind in kinds):
        raise UnsupportedModelError(
            f"{type(network).__name__} holds quantized weights, through which derivatives do not pass; load it dequantized."
        )
    return copy.deepcopy(network).float()


@contextmanager
def quiet() -> Iterator[None]:
    """torch's tracer warns of constants that it keeps, which is as it should be."""
    with warning_filters():
        warnings.filterwarnings("ignore", module=r"torch\.fx.*")
        yield


def differentiable(entry: Entry, compute: Callable[[], Any]) -> Any:
    """Run what differentiates the model, and say in a sentence where it cannot be."""
    try:
        return compute()
    except (NotImplementedError, RuntimeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UnsupportedModelError(f"the {entry.family} family cannot be differentiated here ({reason}).") from error
