"""Push changes of one input vector through all layers of a model: any model, or faster where its blocks are known."""

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.func import functionalize, jvp, linearize, vmap

from identiformer.errors import UnsupportedModelError
from identiformer.models.derivatives.analytic_blocks import KnownBlocks, read_blocks
from identiformer.models.derivatives.input_function import FORWARD_MODE, Entry, differentiable, quiet

AGREE = 1e-4
"""Relative difference that float32 leaves between two ways of computing one derivative."""

TRACED = 16 * 2**20
"""Bytes that a traced block takes, its numbers apart."""


class Pushed(NamedTuple):
    """Tangents of one layer from the position `first` on; those before it are zero."""

    first: int
    hidden: Tensor  # (tangent reached width)
    head_outputs: Tensor | None  # (tangent head reached width)


@runtime_checkable
class Sweep(Protocol):
    """A model at a text, as the linear map from a change of one input vector to the changes of all layers."""

    name: str
    causal: bool
    """Whether changes are known to reach no earlier position."""
    kept: int
    """Bytes that it holds."""
    per_tangent: int
    """Bytes that it needs for each tangent on its way, at most."""

    def push(self, sources: Tensor, directions: Tensor) -> Iterator[Pushed]:
        """Layer by layer, how the hidden vectors move when one source vector (tangent) moves in one direction (tangent width)."""
        ...


@torch.no_grad()
def find_sweep(entry: Entry, heads: bool) -> Sweep:
    """The fastest way through a model that is right: what does not agree with torch's forward mode is not used."""
    agrees = agreement(entry)
    blocks = read_blocks(entry)
    if blocks is not None and agrees(sweep := WrittenSweep(entry, blocks)):
        return sweep
    try:
        sweep = GeneralSweep.linearised(entry, heads)
    except UnsupportedModelError:
        sweep = None
    return sweep if sweep is not None and agrees(sweep) else GeneralSweep.direct(entry, heads)


def agreement(entry: Entry) -> Callable[[Sweep], bool]:
    """A test whether one random change of one vector comes out as torch's forward mode has it."""
    source = len(entry.point) // 2
    change = entry.unchanged
    change[source] = torch.randn(entry.point.shape[-1], generator=torch.Generator().manual_seed(0)).to(entry.point)
    run = _runner(entry, heads=False)
    with FORWARD_MODE:
        _, (expected, _) = differentiable(entry, lambda: jvp(run, (entry.unchanged,), (change,)))

    def agrees(sweep: Sweep) -> bool:
        return all(
            float((hidden[0] - truth[first:]).norm()) <= AGREE * float(truth.norm()) and not bool(truth[:first].any())
            for truth, (first, hidden, _) in zip(expected, sweep.push(torch.tensor([source]), change[None, source]), strict=True)
        )

    return agrees


class GeneralSweep:
    """Any model that torch can differentiate forward, applied to many tangents at once."""

    causal = False

    def __init__(self, name: str, entry: Entry, heads: bool, push: Callable[[Tensor], Any], kept: int, copies: int) -> None:
        self.name, self._point, self._heads, self._push, self.kept = name, entry.point, heads, push, kept
        states = (1 + heads) * len(entry.point) * sum(entry.widths) * entry.point.element_size()
        self.per_tangent = copies * (states + entry.working_bytes)

    @classmethod
    def direct(cls, entry: Entry, heads: bool) -> "GeneralSweep":
        """Through the model itself, for every batch of tangents anew."""
        push = lambda tangent: jvp(_runner(entry, heads), (entry.unchanged,), (tangent,))[1]  # noqa: E731
        return cls("direct", entry, heads, push, 0, copies=4)

    @classmethod
    def linearised(cls, entry: Entry, heads: bool) -> "GeneralSweep":
        """Traced once, which takes seconds, and then about twice as fast."""
        # A model that writes into its own constants (T5 counts position buckets so) would change the traced map at each use:
        # made functional it writes nowhere.
        run = functionalize(_runner(entry, heads))
        with FORWARD_MODE, quiet():
            _, push = differentiable(entry, lambda: linearize(run, entry.unchanged))
        # Folding what does not depend on the change copies the weights.
        maps = (module for module in entry.network.modules() if not isinstance(module, nn.Embedding))
        weights = sum(parameter.nbytes for module in maps for parameter in module.parameters(recurse=False))
        kept = weights + len(entry.widths) * (TRACED + 4 * entry.working_bytes)
        return cls("linearised", entry, heads, push, kept, copies=2)

    def push(self, sources: Tensor, directions: Tensor) -> Iterator[Pushed]:
        tangents = self._point.new_zeros(len(directions), *self._point.shape)
        tangents[torch.arange(len(sources)), sources] = directions
        # Numbers are drawn also in evaluation, where some families might drop a layer in training; nothing depends on them.
        with FORWARD_MODE:
            hidden, outputs = vmap(self._push, randomness="same")(tangents)
        for layer, moved in enumerate(hidden):
            yield Pushed(0, moved, outputs[layer] if self._heads else None)


def _runner(entry: Entry, heads: bool) -> Callable[[Tensor], tuple[tuple[Tensor, ...], tuple[Tensor, ...]]]:
    def run(change: Tensor) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        states = entry.run(change)
        return states.hidden, states.head_outputs if heads else ()

    return run


class WrittenSweep:
    """A model of known blocks: each block's derivative as a few matrix products, one layer in memory at a time."""

    name = "written"

    def __init__(self, entry: Entry, blocks: KnownBlocks) -> None:
        self._point, self._blocks, self.causal = entry.point, blocks, blocks.causal
        block = blocks.blocks[0]
        positions, width = entry.point.shape
        features = block.into_heads.shape[1], block.feed_forward.into.shape[1]
        scores = block.attention.weights[..., 0].numel() // positions
        weights = {parameter.untyped_storage().data_ptr() for parameter in entry.network.parameters()}
        own = sum(each.nbytes for each in _tensors(blocks) if each.untyped_storage().data_ptr() not in weights)
        self.kept = 2 * own  # while they are read, the run that they are read from is there too
        floats = 8 * width + max(2 * features[0] + 3 * scores * positions, 2 * features[1])
        self.per_tangent = entry.point.element_size() * positions * floats

    def push(self, sources: Tensor, directions: Tensor) -> Iterator[Pushed]:
        first = int(sources.min()) if self.causal else 0
        tangents = self._point.new_zeros(len(directions), len(self._point) - first, directions.shape[-1])
        tangents[torch.arange(len(sources)), sources - first] = directions
        if self._blocks.entry_norm is not None:
            tangents = self._blocks.entry_norm.push(tangents, first)
        for block in self._blocks.blocks[:-1]:
            tangents, heads = block.push(tangents, first)
            yield Pushed(first, tangents, heads)
        tangents, heads = self._blocks.blocks[-1].push(tangents, first)
        final = self._blocks.final_norm
        yield Pushed(first, tangents if final is None else final.push(tangents, first), heads)


def _tensors(value: Any) -> Iterator[Tensor]:
    """All tensors that a record of tangents holds."""
    if isinstance(value, Tensor):
        yield value
    elif is_dataclass(value):
        for field in fields(value):
            yield from _tensors(getattr(value, field.name))
    elif isinstance(value, tuple):
        for part in value:
            yield from _tensors(part)
