"""Maps by the length of what each key writes: norm-based attention, up to the block's second LayerNorm.

A model with norms before its sublayers has none on what attention adds to the residual stream: the norm is already in the values.
There `norm_layernorm` and `globenc` equal `norm_residual`.
"""

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from identiformer.equations.maps.norms import mean_norms, summed_norms, transformed_values, with_own_norms
from identiformer.errors import UnsupportedModelError
from identiformer.measures.maps.kind import MapKind
from identiformer.passage import Passage
from identiformer.trace import RecordedLayer

KEPT = 256 * 2**20
"""Bytes of vectors that all maps of a text may share."""
WITH_PROJECTION = "attention weights, values, output projection"
WITH_BLOCKS = "a BERT-, Llama- or GPT-2-like model"


def transformed(passage: Passage) -> Iterator[Tensor]:
    """t_j = v_jH of each head, (head key model), layer by layer; kept for the next map as far as memory allows."""
    kept: dict[int, Tensor] = passage.once("transformed values", dict)
    for layer in passage.layers:
        written = kept.get(layer.number)
        if written is None:
            written = _transformed(layer)
            if sum(other.nbytes for other in (written, *kept.values())) <= KEPT:
                kept[layer.number] = written
        yield written


def _transformed(layer: RecordedLayer) -> Tensor:
    projection = layer.projection
    if projection is None:
        raise UnsupportedModelError(
            "expected an output projection that reads the heads directly, got a model without; use a map that needs attention "
            "weights and values only."
        )
    return transformed_values(layer.values.double(), projection.double())


def norm_of_values(passage: Passage) -> Tensor:
    """The mean over heads of a‖v‖."""
    return torch.stack([mean_norms(layer.weights.double(), layer.values.double()) for layer in passage.layers])


def norm_of_heads(passage: Passage) -> Tensor:
    """The mean over heads of a‖vH‖."""
    layers = zip(passage.layers, transformed(passage), strict=True)
    return torch.stack([mean_norms(layer.weights.double(), written) for layer, written in layers])


def norm_of_layer(passage: Passage) -> Tensor:
    """‖Σ_h avH‖."""
    layers = zip(passage.layers, transformed(passage), strict=True)
    return torch.stack([summed_norms(layer.weights.double(), written) for layer, written in layers])


def norm_with_residual(passage: Passage) -> Tensor:
    """‖Σ_h avH + (i = j)x‖."""
    layers = zip(NORM_LAYER.scores(passage), passage.layers, transformed(passage), passage.blocks.blocks, strict=True)
    return torch.stack([with_own_norms(norms, layer.weights.double(), t, block.x) for norms, layer, t, block in layers])


def _norm_after(passage: Passage, norms: int) -> Tensor:
    """‖Σ_h avH + (i = j)x‖ after the norms that follow attention, the first one or both."""
    if not passage.blocks.blocks[0].norms_follow:
        return NORM_RESIDUAL.scores(passage)
    maps = []
    for layer, written, block in zip(passage.layers, transformed(passage), passage.blocks.blocks, strict=True):
        residual, scale = block.x, torch.ones(1, dtype=torch.float64)
        for norm in (block.attention_norm, block.feed_forward_norm)[:norms]:
            written, residual, scale = norm.numerator(written), norm.numerator(residual), scale * norm.scale
        maps.append(summed_norms(layer.weights.double(), written, residual) / scale[:, None])
    return torch.stack(maps)


NORM_VALUES = MapKind(
    name="norm_values",
    title="norm of the weighted value",
    formula="mean over heads of a_ij‖v_j‖",
    paper="Kobayashi et al. (2020)",
    cost="1",
    compute=norm_of_values,
    needs="attention weights, values",
)
NORM_HEADS = MapKind(
    name="norm_heads",
    title="norm of what a head writes",
    formula="mean over heads of a_ij‖v_jH‖",
    paper="Kobayashi et al. (2020)",
    cost="1",
    compute=norm_of_heads,
    needs=WITH_PROJECTION,
)
NORM_LAYER = MapKind(
    name="norm_layer",
    title="norm of what the layer writes",
    formula="‖Σ_h a_ij·v_jH‖",
    paper="Kobayashi et al. (2020)",
    cost="1",
    compute=norm_of_layer,
    needs=WITH_PROJECTION,
)
NORM_RESIDUAL = MapKind(
    name="norm_residual",
    title="norm with the residual connection",
    formula="‖Σ_h a_ij·v_jH + (i = j)·x_i‖",
    paper="Kobayashi et al. (2021)",
    cost="2",
    compute=norm_with_residual,
    needs=WITH_BLOCKS,
    has_residual=True,
)
NORM_LAYERNORM = MapKind(
    name="norm_layernorm",
    title="norm with residual connection and LayerNorm",
    formula="‖LN₁(Σ_h a_ij·v_jH + (i = j)·x_i)‖, LN₁ linear with the statistics of query i and without its bias",
    paper="Kobayashi et al. (2021)",
    cost="2",
    compute=partial(_norm_after, norms=1),
    needs=WITH_BLOCKS,
    has_residual=True,
)
GLOBENC = MapKind(
    name="globenc",
    title="GlobEnc's layer map",
    formula="‖LN₂(LN₁(Σ_h a_ij·v_jH + (i = j)·x_i))‖, both linear with the statistics of query i",
    paper="Modarressi et al. (2022)",
    cost="2",
    compute=partial(_norm_after, norms=2),
    needs=WITH_BLOCKS,
    has_residual=True,
)
