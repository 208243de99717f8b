"""Maps of attention weights: raw attention, other rows with the same head output, and baselines that do not look at the model."""

from collections.abc import Callable

import torch
from torch import Tensor

from identiformer.equations import (
    effective_attention,
    maximum_entropy_attention,
    minimum_norm_attention,
    sum_preserving_attention,
)
from identiformer.equations.maps.rows import nearby_rows, random_rows, uniform_rows, with_residual, without_keys
from identiformer.measures.maps.kind import WITH_VALUES, MapKind
from identiformer.passage import Passage

WITH_MASK = "the attention mask"


def _head_means(variant: Callable[..., Tensor], passage: Passage) -> tuple[Tensor, Tensor]:
    """The means over heads of a variant of attention and of its absolute value, which several maps share."""

    def compute() -> tuple[Tensor, Tensor]:
        signed, magnitude = [], []
        for layer in passage.layers:
            weights, values = layer.weights.double(), layer.transmitted_values().double()
            rows = variant(weights, values, layer.visible, sink=layer.sink, precision=layer.values.dtype)
            # An output on the boundary of the reachable ones may have no row that is found: there attention itself remains.
            rows = torch.where(rows.isnan().any(-1, keepdim=True), weights, rows)
            signed.append(rows.mean(0))
            magnitude.append(rows.abs_().mean(0))
        return torch.stack(signed), torch.stack(magnitude)

    return passage.once(variant.__name__, compute)


RAW = MapKind(
    name="raw",
    title="raw attention",
    formula="mean over heads of a_ij",
    paper="Vaswani et al. (2017)",
    cost="1",
    compute=lambda passage: torch.stack([layer.weights.double().mean(0) for layer in passage.layers]),
)
MINIMUM_NORM = MapKind(
    name="minimum_norm",
    title="attention of minimum norm",
    formula="mean over heads of the row of least ‖a'‖ with a' ≥ 0, a'V = aV, Σa' = Σa",
    paper="Brunner et al. (2020), §7",
    cost="160 (minilm, 128 tokens)",
    compute=lambda passage: _head_means(minimum_norm_attention, passage)[0],
    needs=WITH_VALUES,
    cheap=False,
)
MAPS_OF_ATTENTION = (
    RAW,
    MapKind(
        name="raw_words",
        title="raw attention between words",
        formula="a_ij/Σ_k a_ik of the mean over heads, over keys that are not special tokens; zero if no other key has weight",
        paper="Clark et al. (2019)",
        cost="1",
        compute=lambda passage: without_keys(RAW.scores(passage), torch.tensor(passage.tokens.special)),
    ),
    MapKind(
        name="raw_residual",
        title="raw attention with the residual connection",
        formula="½ mean over heads of a_ij + ½ (i = j)",
        paper="Abnar and Zuidema (2020)",
        cost="1",
        compute=lambda passage: with_residual(RAW.scores(passage)),
        has_residual=True,
    ),
    MapKind(
        name="effective",
        title="effective attention",
        formula="mean over heads of |a⊥_ij|",
        paper="Brunner et al. (2020)",
        cost="2",
        compute=lambda passage: _head_means(effective_attention, passage)[1],
        needs=WITH_VALUES,
    ),
    MapKind(
        name="effective_signed",
        title="effective attention with its sign",
        formula="mean over heads of a⊥_ij",
        paper="Brunner et al. (2020)",
        cost="2",
        compute=lambda passage: _head_means(effective_attention, passage)[0],
        needs=WITH_VALUES,
        signed=True,
    ),
    MapKind(
        name="sum_preserving",
        title="effective attention with the sum kept",
        formula="mean over heads of a·P, P the projection on the columns of [V, 1]",
        paper="Brunner et al. (2020), §7",
        cost="2",
        compute=lambda passage: _head_means(sum_preserving_attention, passage)[0],
        needs=WITH_VALUES,
        signed=True,
    ),
    MINIMUM_NORM,
    MapKind(
        name="efficient",
        title="efficient attention",
        formula="the distribution with the output of a and without superfluous weight; computed as `minimum_norm`",
        paper="Naim and Asher (2024)",
        cost="160 (minilm, 128 tokens)",
        compute=MINIMUM_NORM.scores,
        needs=WITH_VALUES,
        cheap=False,
    ),
    MapKind(
        name="maximum_entropy",
        title="attention of maximum entropy",
        formula="mean over heads of the row of largest entropy with a' ≥ 0, a'V = aV, Σa' = Σa; a where none is found",
        paper="Brunner et al. (2020), §7",
        cost="90 (minilm, 128 tokens)",
        compute=lambda passage: _head_means(maximum_entropy_attention, passage)[0],
        needs=WITH_VALUES,
        cheap=False,
    ),
    MapKind(
        name="uniform",
        title="uniform baseline",
        formula="1/(number of visible keys)",
        paper="baseline",
        cost="0",
        compute=lambda passage: uniform_rows(passage.visible),
        needs=WITH_MASK,
    ),
    MapKind(
        name="random",
        title="random baseline",
        formula="uniform on the simplex of the visible keys",
        paper="baseline",
        cost="0",
        compute=lambda passage: random_rows(passage.visible, passage.seed),
        needs=WITH_MASK,
    ),
    MapKind(
        name="distance",
        title="distance baseline",
        formula="1/(1 + |i - j|), as shares of the visible keys",
        paper="baseline",
        cost="0",
        compute=lambda passage: nearby_rows(passage.visible),
        needs=WITH_MASK,
    ),
)
