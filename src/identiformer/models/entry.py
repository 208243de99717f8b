"""Where the vectors of the input tokens enter a model, and the model as a function of a change of them."""

import copy
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from identiformer.errors import InputError, UnsupportedModelError
from identiformer.models.call import Call
from identiformer.models.capture import WEIGHTS, recording
from identiformer.models.families import CRASH_FORWARD_MODE

EXPERTS = "batched_mm"
"""The way to compute a mixture of experts that torch can differentiate forward."""

INPUTS = ("before", "after")


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
    """The module at whose door the input vectors x stand: the embedding LayerNorm, or else the first block."""

    network: Any
    inputs: Mapping[str, Any]
    door: nn.Module
    point: Tensor
    """x, (position width)."""
    widths: tuple[int, ...]
    """How wide the hidden vectors of each layer are."""

    @property
    def family(self) -> str:
        return str(self.network.config.model_type)

    def run(self, change: Tensor) -> States:
        """The model's states when x + change enters; whether for reverse mode is as torch is set."""
        calls: list[Call] = []
        reverse = torch.is_grad_enabled()

        def on_input(_: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
            hook.remove()  # a block that serves several layers is entered by the input only once
            if arguments:
                return (arguments[0] + change, *arguments[1:]), named
            return arguments, {**named, "hidden_states": named["hidden_states"] + change}

        hook = self.door.register_forward_pre_hook(on_input, with_kwargs=True)
        try:
            with recording(self.network, WEIGHTS, calls.append, EXPERTS), torch.set_grad_enabled(reverse):
                result = self.network(**self.inputs, output_hidden_states=True)
        finally:
            hook.remove()
        return States(tuple(state[0] for state in _hidden_states(result)[1:]), tuple(calls), result)

    @property
    def working_bytes(self) -> int:
        """About what one change takes on its way through a block: its hidden features, its scores, and copies of each."""
        config, (positions, width) = self.network.config, self.point.shape
        hidden = max(getattr(config, "intermediate_size", None) or 0, 4 * max(self.widths))
        heads = getattr(config, "num_attention_heads", None) or 1
        return self.point.element_size() * positions * (3 * hidden + 3 * heads * positions + 2 * width)

    @property
    def unchanged(self) -> Tensor:
        """No change: the point at which the model is differentiated."""
        return torch.zeros_like(self.point)


def _hidden_states(result: Any) -> tuple[Tensor, ...]:
    states = getattr(result, "hidden_states", None)
    return getattr(result, "encoder_hidden_states", ()) or () if states is None else states


def find_entry(network: Any, inputs: Mapping[str, Any], block: nn.Module, where: str) -> Entry:
    """Run a model once and find where its input vectors stand, before or after the LayerNorm of its embeddings.

    block: the first of the model's blocks; what it reads is what has passed the embeddings.
    """
    if where not in INPUTS:
        raise InputError(f"expected the input 'before' or 'after' the embedding LayerNorm, got {where!r}.")
    family = network.config.model_type
    if family in CRASH_FORWARD_MODE:
        raise UnsupportedModelError(f"torch's forward differentiation crashes on the {family} family; it cannot be attributed.")
    seen: dict[nn.Module, Tensor] = {}

    def on_input(module: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        given = arguments[0] if arguments else named.get("hidden_states")
        if block not in seen and isinstance(given, Tensor):
            seen[module] = given

    doors = {module for module in network.modules() if "norm" in type(module).__name__.lower()} | {block}
    hooks = [module.register_forward_pre_hook(on_input, with_kwargs=True) for module in doors]
    try:
        with recording(network, WEIGHTS, lambda call: None, EXPERTS):
            result = network(**inputs, output_hidden_states=True)
    finally:
        for hook in hooks:
            hook.remove()
    states = _hidden_states(result)
    if block not in seen or not states or seen[block].ndim != 3 or seen[block].shape[:2] != states[-1].shape[:2]:
        raise UnsupportedModelError(
            f"the {family} family gives no hidden vector a position from one input vector a position; it cannot be attributed."
        )
    _refuse_numbers_that_are_none(states)
    order = list(seen)
    before = order[-2] if len(order) > 1 and seen[order[-2]].shape[:2] == seen[block].shape[:2] else block
    door = before if where == "before" else block
    return Entry(network, dict(inputs), door, seen[door][0].detach(), tuple(state.shape[-1] for state in states[1:]))


def _refuse_numbers_that_are_none(states: tuple[Tensor, ...]) -> None:
    for layer, state in enumerate(states):
        if not bool(state.isfinite().all()):
            raise InputError(f"expected finite hidden states, got NaN or infinity at layer {layer}; check the model's weights.")


def block_of(network: Any, site: str) -> nn.Module:
    """The repeated module that holds an attention, by the latter's path: its own ends at the first number."""
    names = site.split(".")
    for depth, name in enumerate(names, 1):
        if name.isdigit():
            return network.get_submodule(".".join(names[:depth]))
    raise UnsupportedModelError(f"the {network.config.model_type} family has no numbered layers; it cannot be attributed.")


def in_float32(network: Any) -> Any:
    """The network in the precision that derivatives need: itself, or a copy where its weights are in half precision."""
    kinds = {parameter.dtype for parameter in network.parameters()}
    if kinds <= {torch.float32, torch.float64}:
        return network
    if getattr(network, "is_quantized", False) or not all(kind.is_floating_point for kind in kinds):
        raise UnsupportedModelError(
            f"{type(network).__name__} holds quantised weights, through which derivatives do not pass; load it dequantised."
        )
    return copy.deepcopy(network).float()


@contextmanager
def quiet() -> Iterator[None]:
    """torch's tracer warns of constants that it keeps, which is as it should be."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"torch\.fx.*")
        yield


def differentiable(entry: Entry, compute: Callable[[], Any]) -> Any:
    """Run what differentiates the model, and say in a sentence where it cannot be."""
    try:
        return compute()
    except (NotImplementedError, RuntimeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UnsupportedModelError(f"the {entry.family} family cannot be differentiated here ({reason}).") from error
