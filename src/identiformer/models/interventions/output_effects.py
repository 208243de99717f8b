"""How much a model's output changes without one token in one layer: many removals per forward pass."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from identiformer.equations.attribution.agreement import cosine_distance
from identiformer.errors import UnsupportedModelError
from identiformer.models.attention.call import Call
from identiformer.models.derivatives.input_site import require_finite
from identiformer.models.encoding.text import Batch
from identiformer.models.interventions.removal import TOKENS_AT_ONCE, Remove, changed_outputs
from identiformer.models.interventions.resumption import Resumption
from identiformer.models.loaded import LoadedModel
from identiformer.models.replica import replica_of


def output_effects(model: LoadedModel, batch: Batch, layers: Sequence[int], remove: Remove, *, edges: bool) -> dict[int, Tensor]:
    """For each layer (target source): how much the model's output at the target changes without the source in that layer.

    The output is the next-token distribution, compared by the KL divergence, where the model predicts tokens, and otherwise the
    last hidden state, compared by 1 - cos. A source is removed for all queries; with `edges`, for the target alone, which takes
    one copy of the text per pair.
    """
    positions = batch.longest
    with torch.no_grad():
        logits = getattr(model.forward(replica_of(model.network), batch.inputs), "logits", None)
    predicts = isinstance(logits, Tensor) and logits.ndim == 3 and logits.shape[1] == positions

    def read(result: Any, _: int) -> Tensor:
        return result.logits.double().cpu().log_softmax(-1) if predicts else _states(model, result, positions, layers)

    run = Resumption(model, replica_of(model.network) if predicts else model.replica(), batch, read)
    effects = {layer: torch.empty(positions, positions, dtype=torch.float64) for layer in layers}
    sources = torch.arange(positions)
    pairs = torch.cartesian_prod(sources, sources) if edges else torch.stack([torch.full_like(sources, -1), sources], -1)
    for layer, effect in effects.items():
        for part in pairs.split(max(1, TOKENS_AT_ONCE // positions)):
            receive = partial(_receive, layer - 1, remove, part)
            changed = run.run(layer - 1, len(part), receive)
            if predicts:
                change = (run.unchanged.exp() * (run.unchanged - changed)).sum(-1)
            else:
                change = cosine_distance(run.unchanged, changed)
            if edges:
                effect[part[:, 0], part[:, 1]] = change[torch.arange(len(part)), part[:, 0]]
            else:
                effect[:, part[:, 1]] = change.mT
    return effects


def _receive(chosen: int, remove: Remove, pairs: Tensor, number: int, call: Call) -> Tensor | None:
    """The head outputs of the chosen call without a source, for one query or for all (-1)."""
    if number != chosen:
        return None
    queries, sources = pairs.T
    changed = changed_outputs(call, remove, sources)
    if bool((queries < 0).all()):
        return changed
    output, copies = call.output.clone(), torch.arange(len(queries))
    output[copies, queries] = changed[copies, queries]
    return output


def _states(model: LoadedModel, result: Any, positions: int, layers: Sequence[int]) -> Tensor:
    states = getattr(result, "last_hidden_state", None)
    if not isinstance(states, Tensor) or states.ndim != 3 or states.shape[1] != positions:
        family = model.backbone.config.model_type
        raise UnsupportedModelError(f"the {family} family returns no hidden vector per token; its output cannot be compared.")
    require_finite(states, len(layers))
    return states.double().cpu()
