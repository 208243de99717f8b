"""Explanations that take the output apart: DecompX and ALTI-Logit, one part per input token."""

import torch
from torch import Tensor

from identiformer.equations.maps.decomposition import activated_parts, attended_parts, share_bias
from identiformer.equations.maps.rollout import logit_updates, traced_updates
from identiformer.errors import UnsupportedModelError
from identiformer.measures.effective import check_budget
from identiformer.measures.maps.kind import MapKind
from identiformer.measures.maps.norms import ALTI, written
from identiformer.models.blocks.head import record_head
from identiformer.models.blocks.recorded import RecordedBlock, RecordedFeedForward, RecordedNorm
from identiformer.passage import Passage
from identiformer.trace import RecordedLayer

POSITIONS_AT_ONCE = 16
"""Of the feed-forward layer, whose hidden features are several times as wide as the vectors."""


def decompx(passage: Passage) -> Tensor:
    """The parts of the target: they sum to it."""
    target, parts = passage.target, hidden_parts(passage)
    if target.direction is not None:
        return (parts[:, list(target.positions)].mean(1).double() @ target.direction).cpu()
    position, *others = target.positions
    if others:
        raise UnsupportedModelError("expected a head that reads one position, got one that reads all; use attnlrp.")
    parts = parts[:, position].double()
    for step in record_head(passage.model, passage.batch.inputs, position):
        parts = share_bias(parts @ step.map.weight.double(), step.map.bias.double()) * step.slopes
    return target.of_logits(parts)


def hidden_parts(passage: Passage) -> Tensor:
    """The last hidden vectors as sums of one part per token, (source position width)."""
    blocks = passage.blocks
    if blocks.blocks[0].feed_forward.gated:
        raise UnsupportedModelError(
            "expected a feed-forward layer of one activation, got a gated one, for which DecompX has no rule; use attnlrp."
        )
    x = blocks.blocks[0].x.to(blocks.blocks[0].values.weight)
    check_budget(4 * x.element_size() * len(x) * x.numel(), passage.model.memory, "use a shorter text")
    parts = torch.diag_embed(x.mT).permute(1, 2, 0)
    for number, (layer, block) in enumerate(zip(passage.layers, blocks.blocks, strict=True)):
        parts = _after_block(parts, layer, block, first=number == 0)
    return parts if blocks.final_norm is None else _after_norm(parts, blocks.final_norm)


def _after_block(parts: Tensor, layer: RecordedLayer, block: RecordedBlock, first: bool) -> Tensor:
    if block.norms_follow:
        middle = _after_norm(_after_attention(parts, parts, layer, block, first), block.attention_norm)
        return _after_norm(middle + _after_feed_forward(middle, block.feed_forward), block.feed_forward_norm)
    middle = _after_attention(parts, _after_norm(parts, block.attention_norm), layer, block, first)
    return middle + _after_feed_forward(_after_norm(middle, block.feed_forward_norm), block.feed_forward)


def _after_norm(parts: Tensor, norm: RecordedNorm) -> Tensor:
    return share_bias(norm.linear(parts), norm.bias.to(parts))


def _after_attention(parts: Tensor, read: Tensor, layer: RecordedLayer, block: RecordedBlock, first: bool) -> Tensor:
    """The residual stream after attention. In the first layer a token's value has one part, which keeps the bias of values."""
    weights, values, projection = layer.weights.to(parts), block.values, block.projection
    written = parts + attended_parts(read, weights, values.weight.to(parts), projection.weight.to(parts))
    # The bias of values as each head writes it: (head model).
    by_head = values.bias.to(parts).unflatten(0, (-1, len(projection.weight) // len(weights)))
    by_head = by_head.repeat_interleave(len(weights) // len(by_head), 0)
    bias = torch.einsum("hv,hvd->hd", by_head, projection.weight.to(parts).unflatten(0, by_head.shape))
    if first:
        written = written + torch.einsum("hqk,hd->kqd", weights, bias)
        return share_bias(written, projection.bias.to(parts))
    return share_bias(written, projection.bias.to(parts) + bias.sum(0))


def _after_feed_forward(parts: Tensor, layer: RecordedFeedForward) -> Tensor:
    (into,), (features,), out_of = layer.into, layer.features, layer.out_of
    outputs = []
    for some, at in zip(parts.split(POSITIONS_AT_ONCE, 1), features.split(POSITIONS_AT_ONCE), strict=True):
        hidden = share_bias(some @ into.weight.to(parts), into.bias.to(parts))
        hidden = activated_parts(hidden, at.to(parts), layer.activation(at).to(parts))
        outputs.append(share_bias(hidden @ out_of.weight.to(parts), out_of.bias.to(parts)))
    return torch.cat(outputs, 1)


DECOMPX = MapKind(
    name="decompx",
    title="DecompX",
    formula="the part of f that comes from x_j: attention weights, norms and f(x)/x of activations constant, biases in shares of "
    "|⟨part, b⟩|",
    paper="Modarressi et al. (2023)",
    cost="2 per token",
    compute=decompx,
    needs="a BERT- or GPT-2-like model",
    signed=True,
    cheap=False,
    explains_output=True,
)


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
