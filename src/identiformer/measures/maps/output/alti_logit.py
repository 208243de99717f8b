"""ALTI-Logit: what attention adds to the output in each layer, traced to the input tokens."""

import torch
from torch import Tensor

from identiformer.equations.maps.logit_updates import logit_updates, traced_updates
from identiformer.errors import UnsupportedModelError
from identiformer.measures.maps.kind import MapKind
from identiformer.measures.maps.norms import ALTI, written
from identiformer.models.blocks.head import record_head
from identiformer.passage import Passage


def alti_logit(passage: Passage) -> Tensor:
    """The mean over the target's positions of Σ_l Δ^l M^(l-1)."""
    norm = passage.blocks.final_norm
    if norm is None:
        raise UnsupportedModelError(
            "expected a model whose layers add to one residual stream up to a final norm, such as GPT-2 or Llama, got one with a "
            "norm after every sum; use decompx."
        )
    positions, readout = list(passage.target.positions), _readout(passage)
    # ⟨LN(t), u⟩ = ⟨t, LN'u⟩: the final norm with the statistics of each position, applied to the read-out.
    scaled = norm.weight.double() * readout / norm.scale[positions, None]
    readouts = scaled - scaled.mean(-1, keepdim=True) if norm.centered else scaled
    updates = []
    for layer, vectors in written(passage):
        by_position = [logit_updates(layer.weights[:, i], vectors, u) for i, u in zip(positions, readouts, strict=True)]
        updates.append(torch.stack(by_position).mean(0))
    return traced_updates(torch.stack(updates), ALTI.scores(passage))


def _readout(passage: Passage) -> Tensor:
    """What the last hidden vector is multiplied with."""
    target = passage.target
    if target.direction is not None:
        return target.direction
    step, *others = record_head(passage.model, passage.batch.inputs, target.positions[0])
    if others:
        raise UnsupportedModelError(
            f"expected a head of one linear map, got {1 + len(others)} with activations between them; use decompx or attnlrp."
        )
    return target.of_logits(step.map.weight)


ALTI_LOGIT = MapKind(
    name="alti_logit",
    title="ALTI-Logit",
    formula="Σ_l Δ^l M^(l-1), Δ^l_j = ⟨Σ_h a_ij·v_jH, u⟩ with u the logit's read-out, M^l the rollout of ALTI up to layer l",
    paper="Ferrando et al. (2023)",
    cost="8",
    compute=alti_logit,
    needs="a Llama- or GPT-2-like model",
    signed=True,
    explains_output=True,
)
