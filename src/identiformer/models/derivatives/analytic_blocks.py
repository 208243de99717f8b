"""Blocks whose derivative is written out: BERT-like and Llama-like ones, read from a model as it runs on a text."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import jvp

from identiformer.equations.attribution.tangents import AttentionTangent, BlockTangent, FeedForwardTangent, NormTangent
from identiformer.models.attention.interface import Call
from identiformer.models.derivatives.input_function import FORWARD_MODE, Entry


@dataclass(frozen=True)
class Layout:
    """What the blocks of a family and their parts are called."""

    stack: str
    heads: tuple[str, str, str]
    """Queries, keys, values."""
    output: str
    attention_norm: str
    feed_forward_norm: str
    into: tuple[str, ...]
    """The map to hidden features, or the gate and it."""
    activation: str
    out_of: str
    norms_follow: bool

    @property
    def weighted(self) -> set[str]:
        """All parts that have weights: a block with more or less than these is not of this layout."""
        return {*self.heads, self.output, self.attention_norm, self.feed_forward_norm, *self.into, self.out_of}


BERT = Layout(
    "encoder.layer",
    ("attention.self.query", "attention.self.key", "attention.self.value"),
    "attention.output.dense",
    "attention.output.LayerNorm",
    "output.LayerNorm",
    ("intermediate.dense",),
    "intermediate.intermediate_act_fn",
    "output.dense",
    norms_follow=True,
)
LLAMA = Layout(
    "layers",
    ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "self_attn.o_proj",
    "input_layernorm",
    "post_attention_layernorm",
    ("mlp.gate_proj", "mlp.up_proj"),
    "mlp.act_fn",
    "mlp.down_proj",
    norms_follow=False,
)


@dataclass(frozen=True, eq=False)
class KnownBlocks:
    """The derivative of a model at a text, block by block."""

    entry_norm: NormTangent | None
    blocks: tuple[BlockTangent, ...]
    final_norm: NormTangent | None
    causal: bool
    """Whether no layer lets a change reach an earlier position."""


def read_blocks(entry: Entry) -> KnownBlocks | None:
    """The blocks of a model at its input, or None where they are not all of one known layout."""
    modules = dict(entry.network.named_modules())
    for layout in (BERT, LLAMA):
        stack = modules.get(layout.stack)
        if isinstance(stack, nn.ModuleList) and all(_weighted_parts(block) == layout.weighted for block in stack):
            return _read(entry, layout, stack, modules.get("norm"))
    return None


def _weighted_parts(block: nn.Module) -> set[str]:
    return {name for name, module in block.named_modules() if any(True for _ in module.parameters(recurse=False))}


def _read(entry: Entry, layout: Layout, stack: nn.ModuleList, final_norm: nn.Module | None) -> KnownBlocks | None:
    seen: dict[nn.Module, tuple[Tensor, Tensor]] = {}
    rotations: list[Any] = []

    def on_output(module: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any], output: Any) -> None:
        if arguments and isinstance(output, Tensor) and output.ndim == 3:
            seen[module] = arguments[0][0], output[0]
        if module in blocks:
            rotations.append(named.get("position_embeddings"))

    blocks = set(stack)
    hooks = [module.register_forward_hook(on_output, with_kwargs=True) for module in entry.network.modules()]
    try:
        with torch.no_grad():
            calls = entry.run(entry.unchanged).calls
    finally:
        for hook in hooks:
            hook.remove()
    enters_at_block = entry.door in blocks
    if len(calls) != len(stack) or any(call.extras for call in calls) or entry.point.shape[-1] != seen[stack[0]][0].shape[-1]:
        return None
    return KnownBlocks(
        None if enters_at_block else _norm(entry.door, seen),
        tuple(_block(*each, layout, seen) for each in zip(stack, calls, rotations, strict=True)),
        None if final_norm is None else _norm(final_norm, seen),
        all(bool((call.weights[0].triu(1) == 0).all()) for call in calls if call.weights is not None),
    )


def _norm(norm: Any, seen: Mapping[nn.Module, tuple[Tensor, Tensor]]) -> NormTangent:
    epsilon = getattr(norm, "variance_epsilon", None) or norm.eps
    return NormTangent.at(seen[norm][0], norm.weight.detach(), epsilon, centered=isinstance(norm, nn.LayerNorm))


def _block(
    block: nn.Module, call: Call, rotation: Any, layout: Layout, seen: Mapping[nn.Module, tuple[Tensor, Tensor]]
) -> BlockTangent:
    def part(name: str) -> Any:
        return block.get_submodule(name)

    def side_by_side(names: tuple[str, ...]) -> Tensor:
        weights = [part(name).weight.detach() for name in names]
        return (weights[0] if len(weights) == 1 else torch.cat(weights)).mT

    assert call.weights is not None
    assert call.query is not None
    assert call.key is not None
    groups = call.key.shape[1]
    return BlockTangent(
        _norm(part(layout.attention_norm), seen),
        _norm(part(layout.feed_forward_norm), seen),
        layout.norms_follow,
        side_by_side(layout.heads),
        None if rotation is None else (rotation[0][0], rotation[1][0]),
        AttentionTangent(
            call.query[0].unflatten(0, (groups, -1)),
            call.key[0],
            call.value[0],
            call.weights[0].unflatten(0, (groups, -1)),
            call.scaling,
        ),
        part(layout.output).weight.detach().mT,
        FeedForwardTangent(
            side_by_side(layout.into),
            _slopes([seen[part(name)][1] for name in layout.into], part(layout.activation)),
            part(layout.out_of).weight.detach().mT,
        ),
    )


def _slopes(reached: list[Tensor], activation: Any) -> Tensor:
    """How each hidden feature moves with the map to it; where gated, with the gate and with the map."""
    with FORWARD_MODE:
        value, slope = jvp(activation, (reached[0],), (torch.ones_like(reached[0]),))[:2]
    return torch.stack([slope] if len(reached) == 1 else [slope * reached[1], value])
