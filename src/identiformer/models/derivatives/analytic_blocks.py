"""Blocks with an analytic derivative, of the known layouts, read from a model while it runs on a text."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import jvp

from identiformer.equations.attribution.tangents import AttentionTangent, BlockTangent, FeedForwardTangent, NormTangent
from identiformer.models.attention.call import Call
from identiformer.models.blocks.layout import Layout, find_stack, joined, norm_epsilon
from identiformer.models.blocks.module_states import States, recorded_states
from identiformer.models.derivatives.input_function import FORWARD_MODE, InputFunction
from identiformer.models.linear_maps import reads_weights
from identiformer.models.replica import hooked


@dataclass(frozen=True, eq=False)
class AnalyticBlocks:
    """The derivative of a model at a text, block by block."""

    embedding_norm: NormTangent | None
    blocks: tuple[Callable[[], BlockTangent], ...]
    """Each returns a block; where weights are read when they are used, with its matrices read again at each call."""
    final_norm: NormTangent | None
    causal: bool
    """Whether no layer lets a change reach an earlier position."""


def read_blocks(function: InputFunction) -> AnalyticBlocks | None:
    """Read the blocks of a model while it runs on its text; None unless they all have one known layout."""
    stack = find_stack(function.network)
    if stack is None:
        return None
    rotations: list[Any] = []

    def on_block(_: nn.Module, __: tuple[Any, ...], named: dict[str, Any], ___: Any) -> None:
        rotations.append(named.get("position_embeddings"))

    reading = hooked(stack.blocks, on_block, with_kwargs=True)
    with reading, recorded_states(function.network.modules()) as recorded, torch.no_grad():
        calls = function.run(function.no_change).calls
    attentions = [attention for call in calls if (attention := _attention(call)) is not None]
    layers = len(stack.blocks)
    if not len(attentions) == len(calls) == layers or function.x.shape[-1] != recorded[stack.blocks[0]][0].shape[-1]:
        return None
    blocks = zip(stack.blocks, attentions, rotations, strict=True)
    return AnalyticBlocks(
        None if function.site in set(stack.blocks) else _norm(function.site, recorded),
        tuple(_block(*block, stack.layout, recorded) for block in blocks),
        None if stack.final_norm is None else _norm(stack.final_norm, recorded),
        all(bool((call.weights[0].triu(1) == 0).all()) for call in calls if call.weights is not None),
    )


def _norm(norm: Any, recorded: States) -> NormTangent:
    weight, centered = norm.weight.detach(), isinstance(norm, nn.LayerNorm)
    return NormTangent.at(recorded[norm][0], weight, norm_epsilon(norm), centered)


def _attention(call: Call) -> AttentionTangent | None:
    """Return the derivative of a call whose weights are a softmax of scaled products of queries and keys, else None."""
    if call.extras or call.weights is None or call.query is None or call.key is None:
        return None
    groups = call.key.shape[1]
    queries, weights = (tensor[0].unflatten(0, (groups, -1)) for tensor in (call.query, call.weights))
    return AttentionTangent(queries, call.key[0], call.value[0], weights, call.scaling)


def _block(
    block: nn.Module, attention: AttentionTangent, rotation: Any, layout: Layout, recorded: States
) -> Callable[[], BlockTangent]:
    def part(name: str) -> Any:
        return block.get_submodule(name)

    def weights(names: tuple[str, ...]) -> Tensor:
        return joined([part(name) for name in names]).weight

    norms = (_norm(part(layout.attention_norm), recorded), _norm(part(layout.feed_forward_norm), recorded))
    slopes = _slopes([recorded[part(name)][1] for name in layout.into], part(layout.activation))
    angles = None if rotation is None else (rotation[0][0], rotation[1][0])

    def read() -> BlockTangent:
        into_heads, out_of_heads = weights(layout.heads), weights((layout.output,))
        feed_forward = FeedForwardTangent(weights(layout.into), slopes, weights((layout.out_of,)))
        return BlockTangent(*norms, layout.norms_follow, into_heads, angles, attention, out_of_heads, feed_forward)

    if reads_weights(block):
        return read
    held = read()
    return lambda: held


def _slopes(features: list[Tensor], activation: Any) -> Tensor:
    """Return the derivative of each hidden feature by the map to it; if gated, by the gate and by the map."""
    with FORWARD_MODE:
        value, slope = jvp(activation, (features[0],), (torch.ones_like(features[0]),))[:2]
    return torch.stack([slope] if len(features) == 1 else [slope * features[1], value])
