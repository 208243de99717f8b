"""What one forward pass of a model left behind: tokens, and for each layer what its attention did."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from identiformer.equations import FactoredAttention, Visibility, factor_weights, projection_root
from identiformer.errors import InputError


@dataclass(frozen=True)
class Tokens:
    """The tokens of one text, as the model saw them."""

    texts: tuple[str, ...]
    ids: tuple[int, ...]
    special: tuple[bool, ...]
    """Whether a token was added by the tokenizer, such as [CLS] and [SEP]."""
    segments: tuple[int, ...]
    """0 for the first text, 1 for the second of a pair."""
    words: tuple[int | None, ...] | None = None
    """Which word of its text a token is a piece of, None for special tokens; None where the tokenizer does not say."""
    spans: tuple[tuple[int, int], ...] | None = None
    """The characters of its text that a token stands for, from and up to; none for special tokens. None as for words."""

    def __len__(self) -> int:
        return len(self.texts)

    def word_labels(self) -> list[str]:
        """For each token the word that it is a piece of, with the position where that begins."""
        if self.words is None:
            raise InputError("this tokenizer does not say which tokens make up a word; use a fast one, or label tokens yourself.")
        keys = [
            (position,) if word is None else (segment, word)
            for position, (segment, word) in enumerate(zip(self.segments, self.words, strict=True))
        ]
        pieces = {key: [text for other, text in zip(keys, self.texts, strict=True) if other == key] for key in keys}
        return [f"{''.join(piece.removeprefix('##') for piece in pieces[key])} {keys.index(key)}" for key in keys]


@dataclass(frozen=True, eq=False)
class LayerAttention:
    """The attention of one layer: recorded weights and values, or (for long texts) effective attention in factored form."""

    number: int
    """Counted from 1, as in the paper."""
    visible: Visibility
    sink: bool
    """Whether a learned sink takes a share of every row."""
    projection: Float[Tensor, "head width model"] | None
    """H, each head's slice of the output projection; None where the model has none that acts on heads directly."""
    weights: Float[Tensor, "head query key"] | None = None
    values: Float[Tensor, "group key width"] | None = None
    """With the bias, before grouped-query repetition."""
    keys: Float[Tensor, "group key key_width"] | None = None
    """As they meet the queries, positions included; None where more than a product with them shapes the weights."""
    queries: Float[Tensor, "head query key_width"] | None = None
    """As they meet the keys; kept with them."""
    scaling: float = 1.0
    """What the product of query and key is multiplied with before the softmax."""
    lossy_heads: tuple[int, ...] = ()
    """Heads whose H has not full row rank, so that the model sees less of them than V shows: T = VH is used."""
    value_bias: Float[Tensor, "group width"] | None = None
    """None where it could not be told from the values; zeros where the model has none."""
    factored: FactoredAttention | None = None
    raw_squared_norm: Float64[Tensor, "head query"] | None = None
    """‖a‖² of each row, where weights were not recorded but it was asked for."""

    @property
    def heads(self) -> int:
        if self.weights is not None:
            return len(self.weights)
        assert self.factored is not None
        return self.factored.heads

    def seen_values(self, value_bias: bool = True) -> Float[Tensor, "group key width"]:
        """The values as the model's output sees them: with or without bias, through H where H loses some of them."""
        if self.values is None:
            raise InputError("the values of this trace were not kept; trace the text with form='weights'.")
        values = self.values
        if not value_bias:
            if self.value_bias is None:
                raise InputError("the value bias of this model could not be told apart; use value_bias=True.")
            values = values - self.value_bias[:, None].to(values.dtype)
        return see_through(values, self.projection, self.lossy_heads)

    def effective(self) -> FactoredAttention:
        """Effective attention of this layer in factored form: rows, columns, entries, column means, leverage."""
        if self.factored is not None:
            return self.factored
        assert self.weights is not None
        assert self.values is not None
        return factor_weights(self.weights, self.seen_values(), self.visible, self.values.dtype)


def see_through(
    values: Float[Tensor, "group row width"], projection: Float[Tensor, "head width model"] | None, lossy_heads: tuple[int, ...]
) -> Float[Tensor, "group_or_head row width"]:
    """Values (or outputs, a group each) as they pass H; as they are where no head's H loses anything."""
    if not lossy_heads or projection is None:
        return values
    root = torch.eye(values.shape[-1], dtype=torch.float64, device=values.device).repeat(len(projection), 1, 1)
    lossy = torch.tensor(lossy_heads, device=values.device)
    root[lossy] = projection_root(projection[lossy])
    return values.double().repeat_interleave(len(projection) // len(values), 0) @ root


@dataclass(frozen=True, eq=False)
class AttentionStack:
    """The layers of one attention type: `self` in most models; `encoder`, `decoder` and `cross` in an encoder-decoder."""

    kind: str
    queries: Tokens
    keys: Tokens
    layers: tuple[LayerAttention, ...]
    weights: Float[Tensor, "layer head query key"] | None = None
    """The weights of all layers, where they were recorded; those of a layer are a view of them."""


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

    def layer(self, number: int, kind: str | None = None) -> LayerAttention:
        """One layer, counted from 1."""
        layers = self.stack(kind).layers
        if not 1 <= number <= len(layers):
            raise InputError(f"expected a layer from 1 to {len(layers)}, got {number}.")
        return layers[number - 1]
