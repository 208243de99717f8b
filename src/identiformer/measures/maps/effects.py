"""Maps by intervention or derivative: value zeroing, leave one out, and Hidden Token Attribution between adjacent layers."""

import torch
from torch import Tensor

from identiformer.equations.attention.removal import zero_values
from identiformer.equations.attribution.hidden_token import contribution
from identiformer.equations.maps.rows import normalized_rows
from identiformer.measures.maps.kind import WITH_BLOCKS, MapKind
from identiformer.models.derivatives.jacobian_norms import adjacent_norms
from identiformer.models.interventions.input_removal import outputs_without
from identiformer.models.interventions.removal import Remove, layer_effects
from identiformer.passage import Passage
from identiformer.progress import work_bar


def effects_on_layers(passage: Passage, remove: Remove = zero_values) -> Tensor:
    """1 - cos of each layer's output with and without each key (layer query key)."""
    numbers = range(1, len(passage.layers) + 1)
    with work_bar("removing keys", False) as bar:
        effects = layer_effects(passage.model, passage.batch, numbers, bar, remove)
    return torch.stack([effects[number] for number in numbers])


def _leave_one_out(passage: Passage) -> Tensor:
    target, removed = passage.target, torch.eye(len(passage.tokens), dtype=torch.bool)
    values = torch.empty(len(removed), dtype=torch.float64)
    for copies, result, _ in outputs_without(passage.model, target.replica(passage.model), passage.batch, removed, "mask"):
        values[copies] = target.value(result).cpu()
    return target.unchanged - values


EFFECTS = (
    MapKind(
        name="value_zeroing",
        title="value zeroing",
        formula="1 - cos(e_i, e_i without v_j), as shares of the row; e_i the output of the block",
        paper="Mohebbi et al. (2023)",
        cost="1 per token",
        # Rounding can leave an effect where there is none.
        compute=lambda passage: normalized_rows(effects_on_layers(passage).clamp(min=0) * passage.visible),
        needs="one attention call per block",
        cheap=False,
        has_residual=True,
    ),
    MapKind(
        name="token_attribution",
        title="Hidden Token Attribution between adjacent layers",
        formula="‖∂e_i^l/∂e_j^(l-1)‖ as shares of the row, from exact Jacobians of the block",
        paper="Brunner et al. (2020), §5",
        cost="2 per token",
        # From the input of the first block, which is as wide as the hidden vectors where embeddings are not (ELECTRA).
        compute=lambda passage: contribution(adjacent_norms(passage.input_function("after"))),
        needs=WITH_BLOCKS,
        cheap=False,
        has_residual=True,
    ),
    MapKind(
        name="leave_one_out",
        title="leave one out",
        formula="f(x) - f(x with token j masked)",
        paper="Li et al. (2016)",
        cost="1 per token",
        compute=_leave_one_out,
        needs="a mask token, or another placeholder",
        signed=True,
        cheap=False,
        explains_output=True,
    ),
)
