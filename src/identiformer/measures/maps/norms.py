"""Maps of what each key writes: its length, its share of the layer's output, and how much nearer to the output it leads.

A model with norms before its sublayers has none on what attention adds to the residual stream: the norm is already in the values.
There `norm_layernorm` and `globenc` equal `norm_residual`.
"""

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from identiformer.equations.attention.contributions import layer_contributions
from identiformer.equations.maps.norms import mean_norms, summed_norms, transformed_values, with_own_norms
from identiformer.equations.maps.proximity import proximity
from identiformer.errors import UnsupportedModelError
from identiformer.measures.maps.kind import WITH_BLOCKS, WITH_VALUES, MapKind
from identiformer.passage import Passage
from identiformer.trace import RecordedLayer

KEPT = 256 * 2**20
"""Bytes of vectors that all maps of a text may share."""
WITH_PROJECTION = "attention weights, values, output projection"


def written(passage: Passage) -> Iterator[tuple[RecordedLayer, Tensor]]:
    """Each layer with t_j = v_jH of its heads, (head key model); kept for the next map as far as memory allows."""
    kept: dict[int, Tensor] = passage.once("transformed values", dict)
    for layer in passage.layers:
        vectors = kept.get(layer.number)
        if vectors is None:
            if layer.projection is None:
                raise UnsupportedModelError(
                    "expected an output projection that reads the heads directly, got a model without; use a map that needs "
                    "attention weights and values only."
                )
            vectors = transformed_values(layer.values.double(), layer.projection.double())
            if sum(other.nbytes for other in (vectors, *kept.values())) <= KEPT:
                kept[layer.number] = vectors
        yield layer, vectors


def _norm_with_residual(passage: Passage) -> Tensor:
    layers = zip(NORM_LAYER.scores(passage), written(passage), passage.blocks.blocks, strict=True)
    return torch.stack([with_own_norms(norms, layer.weights.double(), t, block.x) for norms, (layer, t), block in layers])


def _norm_after(passage: Passage, norms: int) -> Tensor:
    """‖Σ_h avH + (i = j)x‖ after the norms that follow attention, the first one or both."""
    if not passage.blocks.blocks[0].norms_follow:
        return NORM_RESIDUAL.scores(passage)
    maps = []
    for (layer, vectors), block in zip(written(passage), passage.blocks.blocks, strict=True):
        residual, scale = block.x, torch.ones(1, dtype=torch.float64)
        for norm in (block.attention_norm, block.feed_forward_norm)[:norms]:
            vectors, residual, scale = norm.numerator(vectors), norm.numerator(residual), scale * norm.scale
        maps.append(summed_norms(layer.weights.double(), vectors, residual) / scale[:, None])
    return torch.stack(maps)


def _alti(passage: Passage) -> Tensor:
    """How much nearer to the output of the attention sublayer, with residual connection and LayerNorm, each key's part is.

    A norm before the sublayer is already in the values, so with such norms the output is the residual stream after attention.
    """
    maps = []
    for (layer, vectors), block in zip(written(passage), passage.blocks.blocks, strict=True):
        residual, outputs = block.x, block.middle
        if block.norms_follow:
            norm = block.attention_norm
            # The statistics of a query divide all parts of its row: multiplying the output instead leaves the shares as they are.
            vectors, residual, outputs = norm.numerator(vectors), norm.numerator(residual), outputs * norm.scale[:, None]
        maps.append(proximity(layer.weights.double(), vectors, residual, outputs))
    return torch.stack(maps)


NORM_LAYER = MapKind(
    name="norm_layer",
    title="norm of what the layer writes",
    formula="‖Σ_h a_ij·v_jH‖",
    paper="Kobayashi et al. (2020)",
    cost="1",
    compute=lambda passage: torch.stack([summed_norms(layer.weights.double(), t) for layer, t in written(passage)]),
    needs=WITH_PROJECTION,
)
NORM_RESIDUAL = MapKind(
    name="norm_residual",
    title="norm with the residual connection",
    formula="‖Σ_h a_ij·v_jH + (i = j)·x_i‖",
    paper="Kobayashi et al. (2021)",
    cost="2",
    compute=_norm_with_residual,
    needs=WITH_BLOCKS,
    has_residual=True,
)
ALTI = MapKind(
    name="alti",
    title="ALTI's layer map",
    formula="max(0, ‖y_i‖₁ - ‖y_i - T_ij‖₁) as shares, T_ij = LN₁(Σ_h a_ij·v_jH + (i = j)·x_i), y_i the output with its biases",
    paper="Ferrando et al. (2022)",
    cost="4",
    compute=_alti,
    needs=WITH_BLOCKS,
    has_residual=True,
)
WHAT_KEYS_WRITE = (
    MapKind(
        name="norm_values",
        title="norm of the weighted value",
        formula="mean over heads of a_ij‖v_j‖",
        paper="Kobayashi et al. (2020)",
        cost="1",
        compute=lambda passage: torch.stack([mean_norms(one.weights.double(), one.values.double()) for one in passage.layers]),
        needs=WITH_VALUES,
    ),
    MapKind(
        name="norm_heads",
        title="norm of what a head writes",
        formula="mean over heads of a_ij‖v_jH‖",
        paper="Kobayashi et al. (2020)",
        cost="1",
        compute=lambda passage: torch.stack([mean_norms(layer.weights.double(), t) for layer, t in written(passage)]),
        needs=WITH_PROJECTION,
    ),
    NORM_LAYER,
    NORM_RESIDUAL,
    MapKind(
        name="norm_layernorm",
        title="norm with residual connection and LayerNorm",
        formula="‖LN₁(Σ_h a_ij·v_jH + (i = j)·x_i)‖, LN₁ linear with the statistics of query i and without its bias",
        paper="Kobayashi et al. (2021)",
        cost="2",
        compute=partial(_norm_after, norms=1),
        needs=WITH_BLOCKS,
        has_residual=True,
    ),
    MapKind(
        name="globenc",
        title="GlobEnc's layer map",
        formula="‖LN₂(LN₁(Σ_h a_ij·v_jH + (i = j)·x_i))‖, both linear with the statistics of query i",
        paper="Modarressi et al. (2022)",
        cost="2",
        compute=partial(_norm_after, norms=2),
        needs=WITH_BLOCKS,
        has_residual=True,
    ),
    MapKind(
        name="contribution",
        title="contribution to the layer's output",
        formula="P_ij = Σ_h a_ij·⟨v_jH, o_i⟩/‖o_i‖²",
        paper="Contribution Weights (2026)",
        cost="1",
        compute=lambda passage: torch.stack(
            [layer_contributions(one.weights.double(), one.values.double(), one.projection) for one in passage.layers]
        ),
        needs=WITH_VALUES,
        signed=True,
    ),
    ALTI,
)
