"""The layouts of blocks that are known: BERT, Llama, GPT-2, the families that use the same names, and `identiformer.nn`."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from identiformer.models.linear_maps import LinearMap, is_linear, is_plain


@dataclass(frozen=True)
class Layout:
    """The names of a family's blocks and of their modules."""

    stack: str
    final_norm: str | None
    heads: tuple[str, ...]
    """The maps to queries, keys and values; or one map to all three, side by side."""
    output: str
    attention_norm: str
    feed_forward_norm: str
    into: tuple[str, ...]
    """The map to hidden features; if gated, the gate and the map."""
    activation: str
    out_of: str
    norms_follow: bool
    """Whether a norm comes after each residual sum (BERT), or before each sublayer (Llama, GPT-2)."""

    @property
    def weighted(self) -> set[str]:
        """All modules with weights: a block with any other set of them has another layout."""
        return {*self.heads, self.output, self.attention_norm, self.feed_forward_norm, *self.into, self.out_of}


BERT = Layout(
    "encoder.layer",
    None,
    ("attention.self.query", "attention.self.key", "attention.self.value"),
    "attention.output.dense",
    "attention.output.LayerNorm",
    "output.LayerNorm",
    ("intermediate.dense",),
    "intermediate.intermediate_act_fn",
    "output.dense",
    norms_follow=True,
)
IDENTIFIABLE = Layout(
    "layers",
    None,
    ("attention.query", "attention.key", "attention.value"),
    "attention.output",
    "attention_norm",
    "feed_forward_norm",
    ("feed_forward.up",),
    "feed_forward.activation",
    "feed_forward.down",
    norms_follow=True,
)
LLAMA = Layout(
    "layers",
    "norm",
    ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "self_attn.o_proj",
    "input_layernorm",
    "post_attention_layernorm",
    ("mlp.gate_proj", "mlp.up_proj"),
    "mlp.act_fn",
    "mlp.down_proj",
    norms_follow=False,
)
GPT2 = Layout(
    "h",
    "ln_f",
    ("attn.c_attn",),
    "attn.c_proj",
    "ln_1",
    "ln_2",
    ("mlp.c_fc",),
    "mlp.act",
    "mlp.c_proj",
    norms_follow=False,
)


class Stack(NamedTuple):
    """The blocks of a network, their layout, and the norm after the last one."""

    layout: Layout
    blocks: nn.ModuleList
    final_norm: Any


def find_stack(network: nn.Module) -> Stack | None:
    """The blocks of a network if they all have one known layout, else None."""
    modules = dict(network.named_modules())
    for layout in (BERT, LLAMA, GPT2, IDENTIFIABLE):
        blocks = modules.get(layout.stack)
        if isinstance(blocks, nn.ModuleList) and all(_weighted_modules(block) == layout.weighted for block in blocks):
            return Stack(layout, blocks, modules.get(layout.final_norm) if layout.final_norm else None)
    return None


def _weighted_modules(module: nn.Module, path: str = "") -> set[str]:
    """The paths of modules with weights; of a linear one, whatever it consists of, as one with adapters does."""
    if is_linear(module):
        return {path}
    paths = {path} if next(module.parameters(recurse=False), None) is not None else set()
    return paths.union(*(_weighted_modules(child, f"{path}.{name}".removeprefix(".")) for name, child in module.named_children()))


class Linear(NamedTuple):
    """x ↦ xW + b."""

    weight: Tensor  # (input output)
    bias: Tensor  # (output)


def linear_of(module: Any) -> Linear:
    """W and b of a linear module; b is zero where it has none."""
    module = module if is_plain(module) or isinstance(module, LinearMap) else LinearMap(module)
    weight = module.weight.detach()
    weight = weight if isinstance(module, Conv1D) else weight.mT
    bias = getattr(module, "bias", None)
    return Linear(weight, weight.new_zeros(weight.shape[1]) if bias is None else bias.detach())


def in_memory(module: Any) -> Linear:
    """W and b of a linear module in main memory, where everything that is recorded of a run is kept."""
    return Linear(*(part.cpu() for part in linear_of(module)))


def joined(modules: list[Any]) -> Linear:
    """Several linear modules as one map to all their outputs, side by side."""
    maps = [linear_of(module) for module in modules]
    if len(maps) == 1:
        return maps[0]
    # Joined as rows, which is how nn.Linear keeps them: products are faster that way.
    return Linear(torch.cat([part.weight.mT for part in maps]).mT, torch.cat([part.bias for part in maps]))


def norm_epsilon(norm: Any) -> float:
    """ε of a LayerNorm or RMSNorm."""
    return getattr(norm, "variance_epsilon", None) or norm.eps
