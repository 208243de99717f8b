"""The heads of a trace that are read: by layer, so that its weights and projection are read once, and then by group."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from identiformer.equations.attention.contributions import HeadContributions, head_contributions, head_output_shares
from identiformer.measures.effective import check_budget
from identiformer.measures.indices import Indices, select_indices
from identiformer.passage import Passage
from identiformer.trace import RecordedHead, RecordedLayer, Trace

REMEDY = "use a shorter text, in Python choose layers=, heads= or queries="


class Heads:
    """Some heads of one attention type of a trace, in some rows.

    Parameters
    ----------
    trace : Trace
        With recorded weights, or in factored form with those of the rows.
    layers, heads, queries : int or sequence of int, optional
        Which to read; all by default. Layers count from 1, heads and queries from 0.
    kind : str, optional
        Attention type; the first of the trace by default.
    once : callable, optional
        `Passage.once`, which keeps what is computed of a head for its next reading.
    """

    def __init__(
        self,
        trace: Trace,
        layers: Indices | None = None,
        heads: Indices | None = None,
        queries: Indices | None = None,
        kind: str | None = None,
        once: Callable[[Hashable, Callable[[], Any]], Any] = lambda _, compute: compute(),
    ) -> None:
        self.trace, self.stack = trace, trace.stack(kind)
        self.layers = list(dict.fromkeys(select_indices(layers, len(self.stack.layers), "layer", first=1)))
        self.rows = select_indices(queries, len(self.stack.queries), "query")
        fewest = min(self.stack.layers[number - 1].heads for number in self.layers)
        self.heads = list(dict.fromkeys(select_indices(heads, fewest, "head")))
        self.once = once
        self.fitted = False
        """Whether rows are only as many as fit into memory."""

    @classmethod
    def of(
        cls, passage: Passage, layers: Indices | None = None, heads: Indices | None = None, queries: Indices | None = None
    ) -> "Heads":
        """The heads of a passage: in all rows, in those that predicted an answer, or in as many as fit into memory."""
        rows = passage.rows if queries is None else select_indices(queries, passage.batch.longest, "query")
        trace = passage.trace if rows is None else passage.traced(rows=rows, raw_norms=True)
        fitted = False
        if not passage.is_recorded:
            stack, memory = trace.stack(passage.kind), passage.model.memory
            # Of chosen rows, a trace in factored form keeps the weights of all heads, in up to eight bytes each.
            row = 8 * len(stack.keys) * stack.layers[0].heads * len(stack.layers)
            check_budget(row * (1 if rows is None else len(rows)), memory, REMEDY)
            if fitted := rows is None:
                fit = min(memory // row, len(stack.queries))
                rows = np.linspace(0, len(stack.queries) - 1, fit).round().astype(int).tolist()
                trace = passage.traced("factored", rows=rows, raw_norms=True)
        chosen = cls(trace, layers, heads, rows, passage.kind, passage.once)
        chosen.fitted = fitted
        return chosen

    def __len__(self) -> int:
        return len(self.layers) * len(self.heads)

    def __iter__(self) -> Iterator[RecordedHead]:
        return (head for number in self.layers for head in self.layer(number).every_head(self.heads, self.stack.kind))

    @property
    def names(self) -> list[tuple[int, int]]:
        """Layer and head of each, in order."""
        return [(number, head) for number in self.layers for head in self.heads]

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """The sizes of layer, head, query and key."""
        return len(self.layers), len(self.heads), len(self.rows), len(self.stack.keys)

    @property
    def dtype(self) -> torch.dtype:
        """The precision in which values were produced."""
        return self.layer(self.layers[0]).values.dtype

    @property
    def projected(self) -> bool:
        """Whether the output projection of every layer is known."""
        return all(self.layer(number).stored_projection is not None for number in self.layers)

    def layer(self, number: int) -> RecordedLayer:
        """A layer with the rows that are read."""
        return self.stack.layers[number - 1].recorded_rows(self.rows)

    def in_order(self, names: Sequence[tuple[int, int]]) -> Iterator[RecordedHead]:
        """The heads with these layers and numbers."""
        return (self.layer(number).head(head, self.stack.kind) for number, head in names)

    def output_share(self, number: int, head: int) -> float:
        """How much of its layer's output a head writes: a mean over rows."""

        def compute() -> Tensor:
            layer = self.layer(number)
            return head_output_shares(layer.weights.double(), layer.values.double(), layer.projection).nanmean(-1)

        return float(self.once(("output shares", *self._key(number)), compute)[head])

    def contributions(self, head: RecordedHead) -> tuple[Tensor, HeadContributions]:
        """The weights of a head in float64, and what they contribute (1 row key)."""

        def compute() -> tuple[Tensor, HeadContributions]:
            weights, projection = head.weights.double(), head.projection
            values = head.values.double()[None]
            found = head_contributions(weights[None], values, None if projection is None else projection[None])
            return weights.cpu(), HeadContributions(*(each.cpu() for each in found))

        return self.once(("contributions", head.head, *self._key(head.layer)), compute)

    def _key(self, number: int) -> tuple[Hashable, ...]:
        return number, self.stack.kind, tuple(self.rows)
