"""Push changes of one input vector forward through all layers of a model: any model, or faster where its blocks are known."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.func import functionalize, jvp, linearize, vmap

from identiformer.errors import UnsupportedModelError
from identiformer.models.derivatives.analytic_blocks import AnalyticBlocks, read_blocks
from identiformer.models.derivatives.input_function import FORWARD_MODE, InputFunction, differentiable
from identiformer.models.library_output import warning_filters
from identiformer.models.linear_maps import reads_weights

AGREE = 1e-4
"""Relative difference that float32 leaves between two ways of computing one derivative."""

CACHE = 64 * 2**20
"""Bytes of tangents to push at once: more leave the processor's cache between the steps of a block. On two cores, 155 tokens of
MiniLM take 26 ms per tangent with 32 at once, 22 ms with 8, and 25 ms with 4."""

TRACED = 16 * 2**20
"""Bytes that a traced block takes, without its numbers."""


class LayerTangents(NamedTuple):
    """The tangents of one layer from the position `first` on; those of earlier positions are zero."""

    first: int
    hidden: Tensor  # (tangent reached width)
    head_outputs: Tensor | None  # (tangent head reached width)


@runtime_checkable
class Pushforward(Protocol):
    """The derivative of a model at a text: the linear map from a change of one input vector to the changes of all layers."""

    name: str
    causal: bool
    """Whether changes are known not to reach earlier positions."""
    kept: int
    """Bytes that it holds."""
    per_tangent: int
    """Bytes that it needs per tangent while pushing, at most."""
    cached: int | None
    """How many tangents to push at once, at most, so that they stay in the cache; None where each batch costs time by itself."""

    def push(self, sources: Tensor, directions: Tensor) -> Iterator[LayerTangents]:
        """Yield the tangents of each layer; tangent t moves the input vector sources[t] along directions[t]."""
        ...


@torch.no_grad()
def find_pushforward(function: InputFunction, heads: bool) -> Pushforward:
    """Return the fastest pushforward that agrees with torch's forward mode."""
    agrees = agreement(function)
    blocks = read_blocks(function)
    if blocks is not None and agrees(analytic := AnalyticPushforward(function, blocks)):
        return analytic
    if reads_weights(function.network):  # a traced derivative would hold all of them
        return TorchPushforward.direct(function, heads)
    try:
        linearized = TorchPushforward.linearized(function, heads)
    except UnsupportedModelError:
        linearized = None
    return linearized if linearized is not None and agrees(linearized) else TorchPushforward.direct(function, heads)


def agreement(function: InputFunction) -> Callable[[Pushforward], bool]:
    """Return a test of whether one random change of one vector is pushed as torch's forward mode pushes it."""
    source = len(function.x) // 2
    change = function.no_change
    change[source] = torch.randn(function.x.shape[-1], generator=torch.Generator().manual_seed(0)).to(function.x)
    run = _states_of(function, heads=False)
    with FORWARD_MODE:
        _, (expected, _) = differentiable(function, lambda: jvp(run, (function.no_change,), (change,)))

    def agrees(pushforward: Pushforward) -> bool:
        layers = pushforward.push(torch.tensor([source]), change[None, source])
        return all(
            float((hidden[0] - truth[first:]).norm()) <= AGREE * float(truth.norm()) and not bool(truth[:first].any())
            for truth, (first, hidden, _) in zip(expected, layers, strict=True)
        )

    return agrees


class TorchPushforward:
    """Push many tangents at once through any model that torch can differentiate forward."""

    causal = False
    cached: int | None = None

    def __init__(
        self, name: str, function: InputFunction, heads: bool, push: Callable[[Tensor], Any], kept: int, copies: int
    ) -> None:
        self.name, self._x, self._heads, self._push, self.kept = name, function.x, heads, push, kept
        states = (1 + heads) * len(function.x) * sum(function.widths) * function.x.element_size()
        self.per_tangent = copies * (states + function.working_bytes)

    @classmethod
    def direct(cls, function: InputFunction, heads: bool) -> "TorchPushforward":
        """Run the model itself for every batch of tangents."""
        push = lambda tangent: jvp(_states_of(function, heads), (function.no_change,), (tangent,))[1]  # noqa: E731
        return cls("direct", function, heads, push, 0, copies=4)

    @classmethod
    def linearized(cls, function: InputFunction, heads: bool) -> "TorchPushforward":
        """Trace the derivative once, which takes seconds; pushing is then about twice as fast."""
        # A model that writes into its own constants (as T5 does for position buckets) would change the traced map at each use;
        # functionalization removes these in-place writes.
        run = functionalize(_states_of(function, heads))
        with FORWARD_MODE, warning_filters():
            warnings.filterwarnings("ignore", module=r"torch\.fx.*")  # about constants captured in the graph
            _, push = differentiable(function, lambda: linearize(run, function.no_change))
        # Folding what does not depend on the change copies the weights.
        maps = (module for module in function.network.modules() if not isinstance(module, nn.Embedding))
        weights = sum(parameter.nbytes for module in maps for parameter in module.parameters(recurse=False))
        kept = weights + len(function.widths) * (TRACED + 4 * function.working_bytes)
        return cls("linearized", function, heads, push, kept, copies=2)

    def push(self, sources: Tensor, directions: Tensor) -> Iterator[LayerTangents]:
        tangents = self._x.new_zeros(len(directions), *self._x.shape)
        tangents[torch.arange(len(sources)), sources] = directions
        # Families that may drop layers in training draw random numbers in evaluation too; nothing depends on them.
        with FORWARD_MODE:
            hidden, outputs = vmap(self._push, randomness="same")(tangents)
        for layer, moved in enumerate(hidden):
            yield LayerTangents(0, moved, outputs[layer] if self._heads else None)


def _states_of(function: InputFunction, heads: bool) -> Callable[[Tensor], tuple[tuple[Tensor, ...], tuple[Tensor, ...]]]:
    """Return the function from a change of x to the hidden states, and the head outputs if these are wanted."""

    def run(change: Tensor) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        states = function.run(change)
        return states.hidden, states.head_outputs if heads else ()

    return run


class AnalyticPushforward:
    """Push tangents through known blocks: a few matrix products per block, with one layer in memory at a time."""

    name = "analytic"

    def __init__(self, function: InputFunction, blocks: AnalyticBlocks) -> None:
        self._x, self._blocks, self.causal = function.x, blocks, blocks.causal
        block = blocks.blocks[0]()
        positions, width = function.x.shape
        features = block.into_heads.shape[1], block.feed_forward.into.shape[1]
        scores = block.attention.weights[..., 0].numel() // positions
        weights = {parameter.untyped_storage().data_ptr() for parameter in function.network.parameters()}
        of_block = [tensor for tensor in _tensors(block) if tensor.untyped_storage().data_ptr() not in weights]
        maps = sum(tensor.nbytes for tensor in block.maps if any(tensor is each for each in of_block))
        states = sum(tensor.nbytes for tensor in of_block) - maps
        layers = len(blocks.blocks)
        # The run that the states were read from holds them too.
        self.kept = 2 * layers * states + (1 if reads_weights(function.network) else 2 * layers) * maps
        floats = 8 * width + max(2 * features[0] + 3 * scores * positions, 2 * features[1])
        self.per_tangent = function.x.element_size() * positions * floats
        self.cached = None if reads_weights(function.network) else max(1, CACHE // self.per_tangent)

    def push(self, sources: Tensor, directions: Tensor) -> Iterator[LayerTangents]:
        first = int(sources.min()) if self.causal else 0
        tangents = self._x.new_zeros(len(directions), len(self._x) - first, directions.shape[-1])
        tangents[torch.arange(len(sources)), sources - first] = directions
        if self._blocks.embedding_norm is not None:
            tangents = self._blocks.embedding_norm.push(tangents, first)
        for read in self._blocks.blocks:
            tangents, heads = read().push(tangents, first)
            if read is self._blocks.blocks[-1] and self._blocks.final_norm is not None:
                tangents = self._blocks.final_norm.push(tangents, first)
            yield LayerTangents(first, tangents, heads)


def _tensors(value: Any) -> Iterator[Tensor]:
    """Yield all tensors in a nest of dataclasses and tuples."""
    if isinstance(value, Tensor):
        yield value
    elif is_dataclass(value):
        for field in fields(value):
            yield from _tensors(getattr(value, field.name))
    elif isinstance(value, tuple):
        for item in value:
            yield from _tensors(item)
