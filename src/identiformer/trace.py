"""The record of one forward pass: tokens, and the attention of every layer."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from identiformer.equations import FactoredAttention, Visibility, factor_weights, projection_root
from identiformer.equations.attention.heads import group_of, per_head
from identiformer.errors import InputError
from identiformer.options import WEIGHTS_BUDGET
from identiformer.tokens import Tokens


@runtime_checkable
class AttentionLayer(Protocol):
    """The attention of one layer: a `RecordedLayer`, or a `FactoredLayer` where a text is too long for its weights."""

    @property
    def number(self) -> int:
        """Counted from 1, as in the paper."""
        ...

    @property
    def visible(self) -> Visibility:
        """The keys that each query sees."""
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
        """The layer with its weights and values; raises where they were not recorded."""
        ...

    def recorded_rows(self, queries: Sequence[int]) -> "RecordedLayer":
        """The layer with the weights of some rows only; raises where they were not recorded."""
        ...

    def effective(self) -> FactoredAttention:
        """Effective attention A⊥ in factored form: rows, columns, column means, leverage."""
        ...


@dataclass(frozen=True, eq=False)
class RecomputedWeights:
    """The weights of a layer that are computed again when they are read, in place of an array that grows with length squared.

    Parameters
    ----------
    shape : tuple of int
        (head query key).
    compute : callable
        Returns A.
    """

    shape: tuple[int, int, int]
    compute: Callable[[], Tensor]

    def __call__(self) -> Tensor:
        return self.compute()

    def __reduce__(self) -> tuple[Any, ...]:
        return torch.clone, (self(),)  # what computes them belongs to a model of this process


@dataclass(frozen=True, eq=False)
class RecordedHead:
    """One head of a layer, in the rows that are looked at: the unit of work of most measures.

    Parameters
    ----------
    kind : str
        The attention type of its layer.
    layer, head, group : int
        Where it is: layers count from 1, heads from 0; the heads of a group read the same keys and values.
    visible : Visibility
        The keys that each row sees.
    sink : bool
        Whether a learned sink takes a share of every row, which then sums to less than 1.
    values : float tensor (key width)
        V with its bias; one object per group.
    read_weights, read_projection : callables
        Return A (row key), and H (width model) or None. Neither is kept.
    """

    kind: str
    layer: int
    head: int
    group: int
    visible: Visibility
    sink: bool
    values: Float[Tensor, "key width"]
    read_weights: Callable[[], Tensor]
    read_projection: Callable[[], Tensor | None]

    @property
    def weights(self) -> Float[Tensor, "row key"]:
        """A; computed again each time where the trace does not store it."""
        return self.read_weights()

    @property
    def projection(self) -> Float[Tensor, "width model"] | None:
        """H, the head's slice of the output projection."""
        return self.read_projection()

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and of keys."""
        return self.visible.queries, self.visible.keys

    def rows(self, queries: Sequence[int]) -> "RecordedHead":
        """The same head in some of its rows."""
        chosen = torch.tensor(queries)
        return replace(self, visible=self.visible.rows(chosen), read_weights=lambda: self.weights[chosen])

    def __getstate__(self) -> dict[str, Any]:
        """The head alone: a view would carry the whole layer to another process."""
        projection = self.projection
        kept = self.weights.clone(), None if projection is None else projection.clone()
        return {**vars(self), "values": self.values.clone(), "read_weights": kept[0], "read_projection": kept[1]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        weights, projection = state["read_weights"], state["read_projection"]
        vars(self).update({**state, "read_weights": lambda: weights, "read_projection": lambda: projection})


@dataclass(frozen=True, eq=False)
class RecordedLayer:
    """The attention of one layer with its weights and values.

    Parameters
    ----------
    number : int
        Counted from 1, as in the paper.
    visible : Visibility
        The keys that each query sees.
    sink : bool
        Whether a learned sink takes a share of every row.
    stored_projection : float tensor (head width model), callable that returns it, or None
        H, each head's slice of the output projection; a callable where the model does not hold it as a matrix in memory, None
        where it has none that acts on heads directly. `projection` is H itself.
    stored_weights : float tensor (head query key), or RecomputedWeights
        A, or what computes it again; `weights` is A itself.
    values : float tensor (group key width)
        V with its bias, before grouped-query repetition.
    keys, queries : float tensors (group key key_width) and (head query key_width), optional
        After position embedding; None where the logits are not a plain product of queries and keys.
    scaling : float
        The factor on query-key products before the softmax.
    lossy_heads : tuple of int
        Heads whose H lacks full row rank, so that the model's output depends on T = VH and not on all of V.
    value_bias : float tensor (group width), optional
        None where it could not be separated from the values; zeros where the model has none.

    Examples
    --------
    >>> layer = RecordedLayer(1, Visibility.full(1, 2), False, None, torch.full((1, 1, 2), 0.5), torch.ones(1, 2, 3))
    >>> layer.recorded().weights, layer.effective().nullity
    (tensor([[[0.5000, 0.5000]]]), tensor([[1]]))
    """

    number: int
    visible: Visibility
    sink: bool
    stored_projection: Float[Tensor, "head width model"] | Callable[[], Tensor] | None
    stored_weights: Float[Tensor, "head query key"] | RecomputedWeights
    values: Float[Tensor, "group key width"]
    keys: Float[Tensor, "group key key_width"] | None = None
    queries: Float[Tensor, "head query key_width"] | None = None
    scaling: float = 1.0
    lossy_heads: tuple[int, ...] = ()
    value_bias: Float[Tensor, "group width"] | None = None

    @property
    def heads(self) -> int:
        """The number of query heads."""
        return self.stored_weights.shape[0]

    @property
    def weights(self) -> Float[Tensor, "head query key"]:
        """A; computed again each time where it is not stored."""
        stored = self.stored_weights
        return stored if isinstance(stored, Tensor) else stored()

    @property
    def projection(self) -> Float[Tensor, "head width model"] | None:
        """H; read again each time where the model does not hold it as a matrix in memory."""
        stored = self.stored_projection
        return stored() if callable(stored) else stored

    def recorded(self) -> "RecordedLayer":
        """The layer itself, which has its weights and values."""
        return self

    def recorded_rows(self, queries: Sequence[int]) -> "RecordedLayer":
        """The layer with the weights of some rows only."""
        if list(queries) == list(range(self.visible.queries)):
            return self
        rows = torch.tensor(queries)
        queries_kept = None if self.queries is None else self.queries[:, rows]
        return replace(self, stored_weights=self.weights[:, rows], visible=self.visible.rows(rows), queries=queries_kept)

    def head(self, head: int, kind: str = "self") -> RecordedHead:
        """One head; see `every_head` for several of a layer whose projection or weights take long to read."""
        return next(self.every_head([head], kind))

    def every_head(self, heads: Sequence[int], kind: str = "self") -> Iterator[RecordedHead]:
        """Some heads, group by group: weights and projection of the layer are read once for all."""
        # Contiguous, as in another process: the order of sums in a product depends on it.
        values = [group.contiguous() for group in self.values]
        weights, projection = cache(lambda: self.weights), cache(lambda: self.projection)
        for head in heads:
            group = group_of(head, self.heads, len(values))
            yield RecordedHead(
                kind, self.number, head, group, self.visible, self.sink, values[group],
                lambda head=head: weights()[head],
                lambda head=head: None if (slices := projection()) is None else slices[head].contiguous(),
            )  # fmt: skip

    def effective(self) -> FactoredAttention:
        """Effective attention A⊥ in factored form."""
        return factor_weights(self.weights, self.transmitted_values(), self.visible, self.values.dtype)

    def transmitted_values(self, value_bias: bool = True) -> Float[Tensor, "group key width"]:
        """The values, with or without their bias, as far as the output projection transmits them."""
        values = self.values
        if not value_bias:
            if self.value_bias is None:
                raise InputError("the value bias of this model could not be separated from its values; use value_bias=True.")
            values = values - self.value_bias[:, None].to(values.dtype)
        return transmitted(values, self.projection if self.lossy_heads else None, self.lossy_heads)


@dataclass(frozen=True, eq=False)
class FactoredLayer:
    """The attention of one layer of a long text: effective attention in factored form, without weights and values.

    Parameters
    ----------
    number : int
        Counted from 1, as in the paper.
    sink : bool
        Whether a learned sink takes a share of every row.
    factored : FactoredAttention
        A⊥.
    raw_squared_norm : float64 tensor (head query), optional
        ‖a‖² of each row, where the trace was made with raw_norms=True.
    rows : tuple of int
        The rows whose weights were kept, where the trace was made with rows=.
    with_rows : RecordedLayer, optional
        The values, and the weights of those rows.

    Examples
    --------
    >>> recorded = RecordedLayer(1, Visibility.full(1, 2), False, None, torch.full((1, 1, 2), 0.5), torch.ones(1, 2, 3))
    >>> FactoredLayer(1, sink=False, factored=recorded.effective()).recorded()
    Traceback (most recent call last):
    identiformer.errors.InputError: expected recorded weights, got a trace in factored form; ...
    """

    number: int
    sink: bool
    factored: FactoredAttention
    raw_squared_norm: Float64[Tensor, "head query"] | None = None
    rows: tuple[int, ...] = ()
    with_rows: RecordedLayer | None = None

    @property
    def visible(self) -> Visibility:
        """The keys that each query sees."""
        return self.factored.visible

    @property
    def heads(self) -> int:
        """The number of query heads."""
        return self.factored.heads

    def recorded(self) -> RecordedLayer:
        """Raise InputError, because weights and values were not recorded."""
        raise InputError("expected recorded weights, got a trace in factored form; trace a shorter text, or use form='weights'.")

    def recorded_rows(self, queries: Sequence[int]) -> RecordedLayer:
        """The layer with the weights of some rows that were kept; raises InputError where they were not."""
        missing = [query for query in queries if query not in self.rows]
        if self.with_rows is None or missing:
            raise InputError(
                f"expected recorded weights, got a trace in factored form without those of row {missing[0]}; trace the text with "
                "rows= and choose the same rows by queries=, or trace a shorter text."
            )
        return self.with_rows.recorded_rows([self.rows.index(query) for query in queries])

    def effective(self) -> FactoredAttention:
        """Effective attention A⊥ in factored form."""
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
    """The record of one forward pass over one text or pair of texts, from `Model.trace`.

    Parameters
    ----------
    stacks : tuple of AttentionStack
        The layers of each attention type.
    source : mapping of str to str
        Where it came from: model, revision, texts, versions.
    memory : int
        Bytes that the query × key arrays of a result may take, as in `load`.

    Examples
    --------
    >>> tokens = Tokens(("a", "b"), (1, 2), (False, False), (0, 0))
    >>> layer = RecordedLayer(1, Visibility.causal(2), False, None, torch.eye(2)[None], torch.ones(1, 2, 3))
    >>> trace = Trace((AttentionStack("self", tokens, tokens, (layer,)),), {})
    >>> trace.tokens, trace.layer(1).heads
    (('a', 'b'), 1)
    """

    stacks: tuple[AttentionStack, ...]
    source: Mapping[str, str]
    memory: int = WEIGHTS_BUDGET

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
