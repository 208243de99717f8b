"""One call of attention, as it happened."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from identiformer.equations import Visibility
from identiformer.errors import UnsupportedModelError

OWN_SCORES = "scores of its own making"
"""Among the extras of a call: the scores are not known to be products of the query and key recorded."""

UNSEEN = 5000.0
"""How far below the largest of its row a score must lie for its key to be unseen: the exponential of that is zero in any
precision, and no mask that transformers adds (from -1e4 on) is smaller."""


@dataclass(frozen=True)
class Call:
    """One call of an attention function: tensors still batched and padded."""

    module: nn.Module
    query: Tensor | None  # (batch head query width)
    key: Tensor | None  # (batch group key width)
    value: Tensor  # (batch group key width)
    output: Tensor  # (batch query head width)
    weights: Tensor | None  # (batch head query key)
    mask: Tensor | None
    causal: bool  # whether a fused kernel was told so in place of a mask
    scaling: float
    extras: frozenset[str]
    """Names of what else shaped the weights: soft caps, position biases, sinks."""
    scores: Tensor | None = None
    """What the softmax was given, (batch head query key), where no mask is known by itself."""

    @property
    def heads(self) -> int:
        """How many heads attend; values may be fewer."""
        return self.output.shape[2]

    def visibility(self, example: int, queries: int, keys: int) -> Visibility:
        """What each query of one example may see, padding left out."""
        if self.scores is not None:
            scores = self.scores[example, :, :queries, :keys].float()
            seen = scores > scores.amax(-1, keepdim=True) - UNSEEN
            if not bool((seen == seen[:1]).all()):
                raise UnsupportedModelError(
                    f"expected all heads of {type(self.module).__name__} to see the same keys, but they do not."
                )
            return Visibility.of(seen[0].cpu())
        if self.mask is None:
            return Visibility.causal(queries) if self.causal else Visibility.full(queries, keys)
        mask = self.mask[example if len(self.mask) > 1 else 0, 0, :queries, :keys]
        visible = mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min / 2
        return Visibility.of(visible.expand(queries, keys).cpu())


Handover = Callable[[Call], Tensor]
"""From what was recorded to the head outputs that the model goes on with, (batch query head width)."""
