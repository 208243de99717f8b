"""The record of one forward pass: tokens, and the attention of every layer."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from identiformer.equations import FactoredAttention, Visibility, factor_weights, projection_root
from identiformer.equations.attention.heads import per_head
from identiformer.errors import InputError
from identiformer.tokens import Tokens


@runtime_checkable
class AttentionLayer(Protocol):
    """The attention of one layer, recorded or factored."""

    @property
    def number(self) -> int:
        """Counted from 1, as in the paper."""
        ...

    @property
    def visible(self) -> Visibility:
        """The keys that each query can attend to."""
        ...

    @property
    def sink(self) -> bool:
        """Whether a learned sink takes a share of every row."""
        ...

    @property
    def heads(self) -> int:
        """The number of query heads."""
        ...

    def recorded(self) -> "RecordedLayer":
        """This layer with its weights and values; raises where they were not recorded."""
        ...

    def effective(self) -> FactoredAttention:
        """Effective attention A⊥ in factored form: rows, columns, entries, column means, leverage."""
        ...


@dataclass(frozen=True, eq=False)
class RecordedLayer:
    """The attention of one layer with its weights and values."""

    number: int
    visible: Visibility
    sink: bool
    projection: Float[Tensor, "head width model"] | None
    """H, each head's slice of the output projection; None where the model has none that acts on heads directly."""
    weights: Float[Tensor, "head query key"]
    values: Float[Tensor, "group key width"]
    """With the bias, before grouped-query repetition."""
    keys: Float[Tensor, "group key key_width"] | None = None
    """After position embedding; None where the logits are not a plain product of queries and keys."""
    queries: Float[Tensor, "head query key_width"] | None = None
    """After position embedding; None where keys are."""
    scaling: float = 1.0
    """The factor on query-key products before the softmax."""
    lossy_heads: tuple[int, ...] = ()
    """Heads whose H lacks full row rank, so that the model's output depends on T = VH and not on all of V."""
    value_bias: Float[Tensor, "group width"] | None = None
    """None where it could not be separated from the values; zeros where the model has none."""

    @property
    def heads(self) -> int:
        return len(self.weights)

    def recorded(self) -> "RecordedLayer":
        return self

    def effective(self) -> FactoredAttention:
        return factor_weights(self.weights, self.transmitted_values(), self.visible, self.values.dtype)

    def transmitted_values(self, value_bias: bool = True) -> Float[Tensor, "group key width"]:
        """The values, with or without their bias, as far as the output projection transmits them."""
        values = self.values
        if not value_bias:
            if self.value_bias is None:
                raise InputError("the value bias of this model could not be separated from its values; use value_bias=True.")
            values = values - self.value_bias[:, None].to(values.dtype)
        return transmitted(values, self.projection, self.lossy_heads)


@dataclass(frozen=True, eq=False)
class FactoredLayer:
    """The attention of one layer of a long text: effective attention in factored form, without weights and values."""

    number: int
    sink: bool
    factored: FactoredAttention
    raw_squared_norm: Float64[Tensor, "head query"] | None = None
    """‖a‖² of each row, where the trace was made with raw_norms=True."""

    @property
    def visible(self) -> Visibility:
        return self.factored.visible

    @property
    def heads(self) -> int:
        return self.factored.heads

    def recorded(self) -> RecordedLayer:
        raise InputError("expected recorded weights, got a trace in factored form; trace a shorter text, or use form='weights'.")

    def effective(self) -> FactoredAttention:
        return self.factored


def transmitted(
    values: Float[Tensor, "group row width"], projection: Float[Tensor, "head width model"] | None, lossy_heads: tuple[int, ...]
) -> Float[Tensor, "group_or_head row width"]:
    """Values (or head outputs) without what H discards; unchanged where every head's H has full row rank."""
    if not lossy_heads or projection is None:
        return values
    root = torch.eye(values.shape[-1], dtype=torch.float64, device=values.device).repeat(len(projection), 1, 1)
    lossy = torch.tensor(lossy_heads, device=values.device)
    root[lossy] = projection_root(projection[lossy])
    return per_head(values.double(), len(projection)) @ root


@dataclass(frozen=True, eq=False)
class AttentionStack:
    """The layers of one attention type: `self` in most models; `encoder`, `decoder` and `cross` in an encoder-decoder."""

    kind: str
    queries: Tokens
    keys: Tokens
    layers: tuple[AttentionLayer, ...]
    weights: Float[Tensor, "layer head query key"] | None = None
    """The weights of all layers, where they were recorded and have one shape; those of a layer are a view of them."""


@dataclass(frozen=True, eq=False)
class Trace:
    """The record of one forward pass over one text (or pair of texts)."""

    stacks: tuple[AttentionStack, ...]
    source: Mapping[str, str]
    """Where it came from: model, revision, texts, versions."""

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tokens of the text."""
        return self.stacks[0].queries.texts

    def stack(self, kind: str | None = None) -> AttentionStack:
        """The layers of one attention type; of the first or only one by default."""
        for stack in self.stacks:
            if kind in (None, stack.kind):
                return stack
        kinds = ", ".join(stack.kind for stack in self.stacks)
        raise InputError(f"expected one of the attention types of this trace ({kinds}), got {kind!r}.")

    def layer(self, number: int, kind: str | None = None) -> AttentionLayer:
        """One layer, counted from 1."""
        layers = self.stack(kind).layers
        if not 1 <= number <= len(layers):
            raise InputError(f"expected a layer from 1 to {len(layers)}, got {number}.")
        return layers[number - 1]
