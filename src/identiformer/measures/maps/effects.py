"""Maps by intervention or derivative: value zeroing, and Hidden Token Attribution between adjacent layers."""

import torch
from torch import Tensor

from identiformer.equations.attribution.hidden_token import contribution
from identiformer.equations.maps.rows import normalized_rows
from identiformer.measures.maps.kind import MapKind
from identiformer.models.derivatives.jacobian_norms import adjacent_norms
from identiformer.models.interventions.removal import layer_effects
from identiformer.passage import Passage
from identiformer.progress import work_bar


def value_zeroing_map(passage: Passage) -> Tensor:
    """1 - cos of a layer's output with and without the values of one token, as shares of each row."""
    numbers = range(1, len(passage.layers) + 1)
    with work_bar("zeroing values", False) as bar:
        effects = layer_effects(passage.model, passage.batch, numbers, bar)
    # Rounding can leave an effect where there is none.
    return normalized_rows(torch.stack([effects[number] for number in numbers]).clamp(min=0) * passage.visible)


def adjacent_attribution(passage: Passage) -> Tensor:
    """‖∂e_i/∂e_j‖ between the vectors of a layer and of the layer before, as shares of each row."""
    # The input of the first block, which is as wide as the hidden vectors where embeddings are not (ELECTRA).
    return contribution(adjacent_norms(passage.input_function("after")))


VALUE_ZEROING = MapKind(
    name="value_zeroing",
    title="value zeroing",
    formula="1 - cos(e_i, e_i without v_j), as shares of the row; e_i the output of the block",
    paper="Mohebbi et al. (2023)",
    cost="1 per token",
    compute=value_zeroing_map,
    needs="one attention call per block",
    cheap=False,
    has_residual=True,
)
TOKEN_ATTRIBUTION = MapKind(
    name="token_attribution",
    title="Hidden Token Attribution between adjacent layers",
    formula="‖∂e_i^l/∂e_j^(l-1)‖ as shares of the row, from exact Jacobians of the block",
    paper="Brunner et al. (2020), §5",
    cost="2 per token",
    compute=adjacent_attribution,
    needs="a BERT-, Llama- or GPT-2-like model",
    cheap=False,
    has_residual=True,
)
