"""Blocks with an analytic derivative, of the BERT and Llama layouts, read from a model while it runs on a text."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import jvp

from identiformer.equations.attribution.tangents import AttentionTangent, BlockTangent, FeedForwardTangent, NormTangent
from identiformer.models.attention.call import Call
from identiformer.models.derivatives.input_function import FORWARD_MODE, InputFunction


@dataclass(frozen=True)
class Layout:
    """The names of a family's blocks and of their modules."""

    stack: str
    heads: tuple[str, str, str]  # queries, keys, values
    output: str
    attention_norm: str
    feed_forward_norm: str
    into: tuple[str, ...]
    """The map to hidden features; if gated, the gate and the map."""
    activation: str
    out_of: str
    norms_follow: bool

    @property
    def weighted(self) -> set[str]:
        """All modules with weights: a block with any other set of them has another layout."""
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
class AnalyticBlocks:
    """The derivative of a model at a text, block by block."""

    embedding_norm: NormTangent | None
    blocks: tuple[BlockTangent, ...]
    final_norm: NormTangent | None
    causal: bool
    """Whether no layer lets a change reach an earlier position."""


Recorded = Mapping[nn.Module, tuple[Tensor, Tensor]]
"""The input and output of each module, (position width)."""


def read_blocks(function: InputFunction) -> AnalyticBlocks | None:
    """Read the blocks of a model while it runs on its text; None unless they all have one known layout."""
    modules = dict(function.network.named_modules())
    for layout in (BERT, LLAMA):
        stack = modules.get(layout.stack)
        if isinstance(stack, nn.ModuleList) and all(
            {name.rpartition(".")[0] for name, _ in block.named_parameters(remove_duplicate=False)} == layout.weighted
            for block in stack
        ):
            return _read(function, layout, stack, modules.get("norm"))
    return None


def _read(function: InputFunction, layout: Layout, stack: nn.ModuleList, final_norm: nn.Module | None) -> AnalyticBlocks | None:
    recorded: dict[nn.Module, tuple[Tensor, Tensor]] = {}
    rotations: list[Any] = []

    def on_output(module: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any], output: Any) -> None:
        if arguments and isinstance(output, Tensor) and output.ndim == 3:
            recorded[module] = arguments[0][0], output[0]
        if module in blocks:
            rotations.append(named.get("position_embeddings"))

    blocks = set(stack)
    with ExitStack() as hooks, torch.no_grad():
        for module in function.network.modules():
            hooks.enter_context(module.register_forward_hook(on_output, with_kwargs=True))
        calls = function.run(function.no_change).calls
    attentions = [attention for call in calls if (attention := _attention(call)) is not None]
    if not len(attentions) == len(calls) == len(stack) or function.x.shape[-1] != recorded[stack[0]][0].shape[-1]:
        return None
    return AnalyticBlocks(
        None if function.site in blocks else _norm(function.site, recorded),
        tuple(_block(*block, layout, recorded) for block in zip(stack, attentions, rotations, strict=True)),
        None if final_norm is None else _norm(final_norm, recorded),
        all(bool((call.weights[0].triu(1) == 0).all()) for call in calls if call.weights is not None),
    )


def _norm(norm: Any, recorded: Recorded) -> NormTangent:
    epsilon = getattr(norm, "variance_epsilon", None) or norm.eps
    return NormTangent.at(recorded[norm][0], norm.weight.detach(), epsilon, centered=isinstance(norm, nn.LayerNorm))


def _attention(call: Call) -> AttentionTangent | None:
    """Return the derivative of a call whose weights are a softmax of scaled products of queries and keys, else None."""
    if call.extras or call.weights is None or call.query is None or call.key is None:
        return None
    groups = call.key.shape[1]
    queries, weights = (tensor[0].unflatten(0, (groups, -1)) for tensor in (call.query, call.weights))
    return AttentionTangent(queries, call.key[0], call.value[0], weights, call.scaling)


def _block(block: nn.Module, attention: AttentionTangent, rotation: Any, layout: Layout, recorded: Recorded) -> BlockTangent:
    def part(name: str) -> Any:
        return block.get_submodule(name)

    def joined(names: tuple[str, ...]) -> Tensor:
        weights = [part(name).weight.detach() for name in names]
        return (weights[0] if len(weights) == 1 else torch.cat(weights)).mT

    return BlockTangent(
        _norm(part(layout.attention_norm), recorded),
        _norm(part(layout.feed_forward_norm), recorded),
        layout.norms_follow,
        joined(layout.heads),
        None if rotation is None else (rotation[0][0], rotation[1][0]),
        attention,
        part(layout.output).weight.detach().mT,
        FeedForwardTangent(
            joined(layout.into),
            _slopes([recorded[part(name)][1] for name in layout.into], part(layout.activation)),
            part(layout.out_of).weight.detach().mT,
        ),
    )


def _slopes(features: list[Tensor], activation: Any) -> Tensor:
    """Return the derivative of each hidden feature by the map to it; if gated, by the gate and by the map."""
    with FORWARD_MODE:
        value, slope = jvp(activation, (features[0],), (torch.ones_like(features[0]),))[:2]
    return torch.stack([slope] if len(features) == 1 else [slope * features[1], value])
