"""Maps of contributions: how much of a layer's output comes from each key, by projection or by distance."""

import torch
from torch import Tensor

from identiformer.equations.attention.contributions import layer_contributions
from identiformer.equations.maps.proximity import proximity
from identiformer.measures.maps.kind import MapKind
from identiformer.measures.maps.norms import WITH_BLOCKS, transformed
from identiformer.passage import Passage


def contribution_map(passage: Passage) -> Tensor:
    """P_ij = Σ_h a_ij·⟨v_jH, o_i⟩/‖o_i‖²."""
    return torch.stack(
        [layer_contributions(layer.weights.double(), layer.values.double(), layer.projection) for layer in passage.layers]
    )


def alti(passage: Passage) -> Tensor:
    """How much nearer to the output of the attention sublayer, with residual connection and LayerNorm, each key's part is.

    A norm before the sublayer is already in the values, so with such norms the output is the residual stream after attention.
    """
    maps = []
    for layer, written, block in zip(passage.layers, transformed(passage), passage.blocks.blocks, strict=True):
        residual, outputs = block.x, block.middle
        if block.norms_follow:
            norm = block.attention_norm
            # The statistics of a query divide all parts of its row: multiplying the output instead leaves the shares as they are.
            written, residual, outputs = norm.numerator(written), norm.numerator(residual), outputs * norm.scale[:, None]
        maps.append(proximity(layer.weights.double(), written, residual, outputs))
    return torch.stack(maps)


CONTRIBUTION = MapKind(
    name="contribution",
    title="contribution to the layer's output",
    formula="P_ij = Σ_h a_ij·⟨v_jH, o_i⟩/‖o_i‖²",
    paper="Contribution Weights (2026)",
    cost="1",
    compute=contribution_map,
    needs="attention weights, values",
    signed=True,
)
ALTI = MapKind(
    name="alti",
    title="ALTI's layer map",
    formula="max(0, ‖y_i‖₁ - ‖y_i - T_ij‖₁) as shares, T_ij = LN₁(Σ_h a_ij·v_jH + (i = j)·x_i), y_i the output with its biases",
    paper="Ferrando et al. (2022)",
    cost="4",
    compute=alti,
    needs=WITH_BLOCKS,
    has_residual=True,
)
