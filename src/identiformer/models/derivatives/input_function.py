"""A model as a function of a change of its input vectors x, in a form that torch can differentiate forward and in reverse."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, replace
from threading import RLock
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.hooks import RemovableHandle

from identiformer.errors import UnsupportedModelError, first_line
from identiformer.models.attention.call import Call, Receiver
from identiformer.models.attention.interface import FUSED, WEIGHTS, recording
from identiformer.models.blocks.module_states import hidden_states_of
from identiformer.models.library_output import SharedContext

FORWARD_MODE = RLock()
"""Held during forward differentiation: torch keeps its nesting level, and what it patches while it traces, per process."""

EXPERTS = "batched_mm"
"""The implementation of a mixture of experts that torch can differentiate forward."""


@dataclass(frozen=True, eq=False)
class States:
    """The results of one run."""

    hidden: tuple[Tensor, ...]  # one per layer, (position width)
    calls: tuple[Call, ...]
    result: Any

    @property
    def head_outputs(self) -> tuple[Tensor, ...]:
        """One tensor per layer, (head position width)."""
        return tuple(call.output[0].transpose(0, 1) for call in self.calls)


@dataclass(frozen=True, eq=False)
class InputFunction:
    """The map from a change of the input vectors x of one text to the states of the model."""

    network: Any
    config: Any
    inputs: Mapping[str, Any]
    site: nn.Module
    """The module whose input is x: the LayerNorm of the embeddings, or the first block."""
    at_output: bool
    """Whether changes are added to the output of `site` instead: of the embedding, where that reaches later layers directly."""
    x: Tensor  # (position width)
    widths: tuple[int, ...]  # of the hidden vectors of each layer
    positions_first: bool = False
    """Whether vectors are kept as (position batch width), as XLNet does."""
    fused: bool = False
    """Whether attention is a fused kernel, which keeps no weights: for gradients of long texts, in reverse mode only."""

    @property
    def family(self) -> str:
        return str(self.config.model_type)

    def run(self, change: Tensor, receiver: Receiver = lambda call: None) -> States:
        """Run the model on x + change, with gradients if torch has them enabled.

        change: (position width), or (copy position width) for a function that was `repeated`, whose hidden vectors are then
        those of the first copy.
        receiver: of attention calls, whose head outputs it may replace.
        """
        calls: list[Call] = []
        gradients = torch.is_grad_enabled()

        def moved(vectors: Tensor) -> Tensor:
            copies_last = change.ndim == 3 and self.positions_first
            return vectors + (change.transpose(0, 1) if copies_last else change).reshape(vectors.shape)

        def on_call(call: Call) -> Tensor | None:
            calls.append(call)
            return receiver(call)

        run = differentiable_run(self.network, on_call, self.fused)
        with self._input_as(moved), run, torch.set_grad_enabled(gradients):
            result = self.network(**self.inputs, output_hidden_states=True)
        return States(tuple(state[0] for state in hidden_states_of(result)[1:]), tuple(calls), result)

    def vectors_of(self, inputs: Mapping[str, Any]) -> Tensor:
        """The input vectors (position width) of other inputs, such as other tokens."""
        received: list[Tensor] = []

        def kept(vectors: Tensor) -> Tensor:
            received.append(vectors)
            return vectors

        with self._input_as(kept), differentiable_run(self.network, lambda call: None):
            self.network(**inputs)
        return received[0].detach().reshape(self.x.shape)

    def _input_as(self, change: Callable[[Tensor], Tensor]) -> RemovableHandle:
        """Give the network the changed input vectors in place of its own, in the next run."""

        def on_input(_: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
            hook.remove()  # a block that serves several layers receives x only once
            return with_input(arguments, named, change)

        def on_output(_: nn.Module, __: tuple[Any, ...], output: Tensor) -> Tensor:
            hook.remove()
            return change(output)

        if self.at_output:
            hook = self.site.register_forward_hook(on_output)
        else:
            hook = self.site.register_forward_pre_hook(on_input, with_kwargs=True)
        return hook

    def repeated(self, copies: int) -> "InputFunction":
        """The same function of several changes at once."""
        return replace(self, inputs={name: tensor.repeat_interleave(copies, 0) for name, tensor in self.inputs.items()})

    @property
    def working_bytes(self) -> int:
        """Approximate memory of one change on its way through a block: hidden features, scores, and copies of both."""
        config, (positions, width) = self.config, self.x.shape
        hidden = max(getattr(config, "intermediate_size", None) or 0, 4 * max(self.widths))
        heads = getattr(config, "num_attention_heads", None) or 1
        scores = 0 if self.fused else heads * positions
        return self.x.element_size() * positions * (3 * hidden + 3 * scores + 2 * width)

    @property
    def no_change(self) -> Tensor:
        """Zeros: the point at which the function is differentiated."""
        return torch.zeros_like(self.x)


def with_input(
    arguments: tuple[Any, ...], named: dict[str, Any], change: Callable[[Tensor], Tensor]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a module with its first input changed."""
    if arguments:
        return (change(arguments[0]), *arguments[1:]), named
    return arguments, {**named, "hidden_states": change(named["hidden_states"])}


class _PlainAttention(TorchFunctionMode):
    """Compute torch's attention as plain products, which can be differentiated forward, in this thread alone.

    torch.nn.attention.sdpa_kernel would choose the kernel for all threads of the process.
    """

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        if func is nn.functional.scaled_dot_product_attention:
            return _attention(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, *rest: Any, **named: Any) -> Tensor:
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill(~attn_mask, -torch.inf)
    return torch.ops.aten._scaled_dot_product_attention_math(query, key, value, attn_mask, *rest, **named)[0]


@contextmanager
def differentiable_run(network: Any, receive: Receiver, fused: bool = False) -> Iterator[None]:
    """Record attention, and compute everything by operations that torch can differentiate forward, unless it is fused."""
    before = {module: dict(vars(module)) for module in network.modules()}
    try:
        plain = nullcontext() if fused else _PlainAttention()
        with recording(network, FUSED if fused else WEIGHTS, receive, EXPERTS), plain, without_custom_gradients():
            yield
    finally:
        for module, attributes in before.items():  # RecurrentGemma keeps states for the next run, and with them a graph
            for name, value in list(vars(module).items()):
                if isinstance(value, Tensor) and value is not attributes.get(name):
                    vars(module)[name] = attributes.get(name)


def differentiable(function: InputFunction, compute: Callable[[], Any]) -> Any:
    """Compute a derivative, or raise UnsupportedModelError with torch's reason."""
    try:
        return compute()
    except (NotImplementedError, RuntimeError) as error:
        raise UnsupportedModelError(f"the {function.family} family cannot be differentiated ({first_line(error)}).") from error


FUNCTIONS = ("bloom.modeling_bloom.GeLUFunction", "recurrent_gemma.modeling_recurrent_gemma.SqrtBoundDerivative")

_replaced: ContextVar[bool] = ContextVar("replaced", default=False)


@contextmanager
def without_custom_gradients() -> Iterator[None]:
    """Let torch differentiate what these functions compute, in this thread alone."""
    with _chosen_by_thread():
        token = _replaced.set(True)
        try:
            yield
        finally:
            _replaced.reset(token)


@SharedContext
@contextmanager
def _chosen_by_thread() -> Iterator[None]:
    """Make the functions, which belong to the process, look up what the calling thread has chosen."""
    with ExitStack() as undo:
        for path in FUNCTIONS:
            module, _, name = path.rpartition(".")
            function = getattr(sys.modules.get(f"transformers.models.{module}"), name, None)
            if function is not None:
                function.apply = _chosen(function, function.apply)
                undo.callback(delattr, function, "apply")  # uncovers the inherited method
        yield


def _chosen(function: Any, with_gradient: Callable[..., Any]) -> Callable[..., Any]:
    def apply(*arguments: Any) -> Any:
        if not _replaced.get():
            return with_gradient(*arguments)
        # The context of a forward pass would save inputs for the gradient that is written by hand.
        return function.forward(SimpleNamespace(save_for_backward=lambda *_: None), *arguments)

    return apply
