"""Maps of effective attention and its variants: other rows with the same head output."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from identiformer.equations import (
    effective_attention,
    maximum_entropy_attention,
    minimum_norm_attention,
    sum_preserving_attention,
)
from identiformer.measures.maps.kind import MapKind
from identiformer.passage import Passage

WITH_VALUES = "attention weights, values"


def head_mean(variant: Callable[..., Tensor], absolute: bool = False) -> Callable[[Passage], Tensor]:
    """A map of the mean over heads of a variant of attention, or of its absolute value."""

    def compute(passage: Passage) -> Tensor:
        signed, magnitude = passage.once(variant.__name__, partial(_head_means, variant, passage))
        return magnitude if absolute else signed

    return compute


def _head_means(variant: Callable[..., Tensor], passage: Passage) -> tuple[Tensor, Tensor]:
    """The means over heads of a variant and of its absolute value, which several maps share."""
    signed, magnitude = [], []
    for layer in passage.layers:
        weights, values = layer.weights.double(), layer.transmitted_values().double()
        rows = variant(weights, values, layer.visible, sink=layer.sink, precision=layer.values.dtype)
        # An output on the boundary of the reachable ones may have no row that is found: there attention itself remains.
        rows = torch.where(rows.isnan().any(-1, keepdim=True), weights, rows)
        signed.append(rows.mean(0))
        magnitude.append(rows.abs_().mean(0))
    return torch.stack(signed), torch.stack(magnitude)


EFFECTIVE = MapKind(
    name="effective",
    title="effective attention",
    formula="mean over heads of |a⊥_ij|",
    paper="Brunner et al. (2020)",
    cost="2",
    compute=head_mean(effective_attention, absolute=True),
    needs=WITH_VALUES,
)
EFFECTIVE_SIGNED = MapKind(
    name="effective_signed",
    title="effective attention with its sign",
    formula="mean over heads of a⊥_ij",
    paper="Brunner et al. (2020)",
    cost="2",
    compute=head_mean(effective_attention),
    needs=WITH_VALUES,
    signed=True,
)
SUM_PRESERVING = MapKind(
    name="sum_preserving",
    title="effective attention with the sum kept",
    formula="mean over heads of a·P, P the projection on the columns of [V, 1]",
    paper="Brunner et al. (2020), §7",
    cost="2",
    compute=head_mean(sum_preserving_attention),
    needs=WITH_VALUES,
    signed=True,
)
MINIMUM_NORM = MapKind(
    name="minimum_norm",
    title="attention of minimum norm",
    formula="mean over heads of the row of least ‖a'‖ with a' ≥ 0, a'V = aV, Σa' = Σa",
    paper="Brunner et al. (2020), §7",
    cost="160 (minilm, 128 tokens)",
    compute=head_mean(minimum_norm_attention),
    needs=WITH_VALUES,
    cheap=False,
)
EFFICIENT = MapKind(
    name="efficient",
    title="efficient attention",
    formula="the distribution with the output of a and without superfluous weight; computed as `minimum_norm`",
    paper="Naim and Asher (2024)",
    cost="160 (minilm, 128 tokens)",
    compute=MINIMUM_NORM.scores,
    needs=WITH_VALUES,
    cheap=False,
)
MAXIMUM_ENTROPY = MapKind(
    name="maximum_entropy",
    title="attention of maximum entropy",
    formula="mean over heads of the row of largest entropy with a' ≥ 0, a'V = aV, Σa' = Σa; a where none is found",
    paper="Brunner et al. (2020), §7",
    cost="90 (minilm, 128 tokens)",
    compute=head_mean(maximum_entropy_attention),
    needs=WITH_VALUES,
    cheap=False,
)
