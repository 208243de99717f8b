"""One call of an attention function."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from identiformer.equations import Visibility
from identiformer.errors import UnsupportedModelError

OTHER_SCORES = "another score function"
"""Among the extras of a call: the scores are not known to be products of the recorded query and key."""

MASKED_BY = 5000.0
"""How far below the largest score of its row the score of a masked key is: the exponential of that is zero in any precision,
and all masks that transformers adds (-1e4 or lower) exceed it."""


@dataclass(frozen=True)
class Call:
    """One call of an attention function, with batched and padded tensors."""

    module: nn.Module
    value: Tensor  # (batch group key width)
    output: Tensor  # (batch query head width)
    weights: Tensor | None  # (batch head query key)
    extras: frozenset[str] = frozenset({OTHER_SCORES})
    """Names of what else than products of query and key shaped the weights: soft caps, position biases, sinks."""
    query: Tensor | None = None  # (batch head query width)
    key: Tensor | None = None  # (batch group key width)
    mask: Tensor | None = None
    causal: bool = False
    """Whether a fused kernel was called with is_causal instead of a mask."""
    scaling: float = 1.0
    scores: Tensor | None = None
    """The input of the softmax, (batch head query key), where the mask is not known separately."""
    again: Callable[[], Tensor] | None = None
    """Computes the same weights once more, to the bit, where the model's own function can be called again."""

    @property
    def heads(self) -> int:
        """The number of query heads; values may have fewer."""
        return self.output.shape[2]

    def visibility(self, example: int, queries: int, keys: int) -> Visibility:
        """The keys that each query of one example can attend to, without padding."""
        if self.scores is not None:
            scores = self.scores[example, :, :queries, :keys].float()
            visible = scores > scores.amax(-1, keepdim=True) - MASKED_BY
            if not bool((visible == visible[:1]).all()):
                raise UnsupportedModelError(f"expected all heads of {type(self.module).__name__} to see the same keys.")
            return Visibility.of(visible[0].cpu())
        if self.mask is None:
            return Visibility.causal(queries) if self.causal else Visibility.full(queries, keys)
        mask = self.mask[example if len(self.mask) > 1 else 0, 0, :queries, :keys]
        visible = mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min / 2
        return Visibility.of(visible.expand(queries, keys).cpu())


Receiver = Callable[[Call], Tensor | None]
"""Receives a call; a tensor (batch query head width) that it returns replaces the head outputs."""

_receiver: ContextVar[Receiver] = ContextVar("receiver")

Prefix = Callable[[Tensor, Tensor], tuple[Tensor, Tensor, Tensor | None]]
"""From the keys and values of the positions that are run to those of all positions, with the mask of the rows that are run."""

_prefix: ContextVar[Prefix | None] = ContextVar("prefix", default=None)


@contextmanager
def prefixed(prefix: Prefix) -> Iterator[None]:
    """Let attention through transformers' interface also see the keys of earlier positions, which are not run."""
    token = _prefix.set(prefix)
    try:
        yield
    finally:
        _prefix.reset(token)


def with_prefix(key: Tensor, value: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
    """Keys, values and mask of an attention call, with those of earlier positions if they are known."""
    prefix = _prefix.get()
    return (key, value, mask) if prefix is None else prefix(key, value)


@contextmanager
def receiving(receiver: Receiver) -> Iterator[None]:
    """Send all calls of this context and thread to a receiver."""
    token = _receiver.set(receiver)
    try:
        yield
    finally:
        _receiver.reset(token)


def received(call: Call) -> Tensor:
    """Send a call to the current receiver, and return the head outputs with which the model continues."""
    replacement = _receiver.get()(call)
    return call.output if replacement is None else replacement
