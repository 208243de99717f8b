"""Which keys each query sees: all, a causal prefix, a sliding window, or any set."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from identiformer.errors import InputError


@dataclass(frozen=True, eq=False)
class Visibility:
    """The keys that each query sees.

    Parameters
    ----------
    start, stop : int64 tensors (query)
        Query t sees the keys from start[t] to stop[t] - 1.
    keys : int
        The number of keys.
    mask : bool tensor (query key), optional
        True where a query sees a key; only where the keys of some query are not contiguous.

    Examples
    --------
    >>> Visibility.causal(3).dense().int().tolist()
    [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    """

    start: Int64[Tensor, " query"]
    stop: Int64[Tensor, " query"]
    keys: int
    mask: Bool[Tensor, "query key"] | None = None

    @classmethod
    def full(cls, queries: int, keys: int) -> "Visibility":
        """Every query sees every key."""
        return cls(torch.zeros(queries, dtype=torch.int64), torch.full((queries,), keys), keys)

    @classmethod
    def causal(cls, positions: int) -> "Visibility":
        """Every query sees itself and the keys before it."""
        return cls.window(positions, positions)

    @classmethod
    def window(cls, positions: int, size: int) -> "Visibility":
        """Every query sees itself and the `size - 1` keys before it."""
        stop = torch.arange(1, positions + 1)
        return cls((stop - size).clamp(min=0), stop, positions)

    @classmethod
    def of(cls, mask: Bool[Tensor, "query key"]) -> "Visibility":
        """Read a boolean mask, True where a query sees a key."""
        counts = mask.sum(-1)
        if mask.shape[0] and not bool(counts.all()):
            row = int((counts == 0).nonzero()[0])
            raise InputError(f"expected at least one visible key in every row, but the mask hides every key of row {row}.")
        start = mask.to(torch.int8).argmax(-1)
        stop = mask.shape[-1] - mask.flip(-1).to(torch.int8).argmax(-1)
        one_run = bool((counts == stop - start).all())
        return cls(start, stop, mask.shape[-1], None if one_run else mask)

    def to(self, device: torch.device) -> "Visibility":
        """The same visibility, with its tensors on another device."""
        if self.start.device == device:
            return self
        mask = None if self.mask is None else self.mask.to(device)
        return Visibility(self.start.to(device), self.stop.to(device), self.keys, mask)

    @property
    def queries(self) -> int:
        return len(self.start)

    @cached_property
    def counts(self) -> Int64[Tensor, " query"]:
        """The number of keys that each query sees."""
        return self.stop - self.start if self.mask is None else self.mask.sum(-1)

    @cached_property
    def shared(self) -> bool:
        """Whether every query sees every key."""
        return self.mask is None and bool((self.start == 0).all() and (self.stop == self.keys).all())

    def dense(self) -> Bool[Tensor, "query key"]:
        """The boolean mask, True where visible."""
        if self.mask is not None:
            return self.mask
        return self.columns(torch.arange(self.keys, device=self.start.device))

    def rows(self, queries: Int64[Tensor, " chosen"]) -> "Visibility":
        """The visibility of some queries."""
        mask = None if self.mask is None else self.mask[queries]
        return Visibility(self.start[queries], self.stop[queries], self.keys, mask)

    def columns(self, keys: Int64[Tensor, " chosen"]) -> Bool[Tensor, "query chosen"]:
        """Which queries see each of some keys."""
        if self.mask is not None:
            return self.mask[:, keys]
        return (keys >= self.start[:, None]) & (keys < self.stop[:, None])

    def sum_over_queries(self, rows: Float[Tensor, "*batch query width"]) -> Float[Tensor, "*batch key width"]:
        """For each key the sum of the rows of the queries that see it."""
        if self.mask is not None:
            return self.mask.mT.to(rows.dtype) @ rows
        if self.shared:
            return rows.sum(-2, keepdim=True).expand(*rows.shape[:-2], self.keys, -1)
        steps = rows.new_zeros(*rows.shape[:-2], self.keys + 1, rows.shape[-1])
        steps.index_add_(-2, self.start, rows).index_add_(-2, self.stop, -rows)
        return steps.cumsum(-2)[..., :-1, :]

    def sum_over_keys(self, rows: Float[Tensor, "*batch key width"]) -> Float[Tensor, "*batch query width"]:
        """For each query the sum of the rows of the keys that it sees."""
        if self.mask is not None:
            return self.mask.to(rows.dtype) @ rows
        if self.shared:
            return rows.sum(-2, keepdim=True).expand(*rows.shape[:-2], self.queries, -1)
        total = torch.nn.functional.pad(rows.cumsum(-2), (0, 0, 1, 0))
        return total[..., self.stop, :] - total[..., self.start, :]

    def with_leading_keys(self, extra: int) -> "Visibility":
        """The visibility with `extra` more keys in front that every query sees."""
        return Visibility.of(torch.nn.functional.pad(self.dense(), (extra, 0), value=True))

    def patterns(self) -> Iterator[tuple[Int64[Tensor, " chosen"], Int64[Tensor, " visible"]]]:
        """Groups of queries that see the same keys: pairs of (queries, their keys)."""
        distinct, which = torch.unique(self.dense(), dim=0, return_inverse=True)
        for number, pattern in enumerate(distinct):
            yield (which == number).nonzero()[:, 0], pattern.nonzero()[:, 0]

    def last_viewer(self) -> Int64[Tensor, " key"]:
        """For each key the last query that sees it (-1 where none does)."""
        if self.mask is not None:
            backward = self.mask.flip(0)
            last = self.queries - 1 - backward.to(torch.int8).argmax(0)
            return torch.where(backward.any(0), last, -1)
        if not bool(self.start.any()):  # nested prefixes: the last row that reaches each key
            reach = self.stop.flip(0).cummax(0).values
            key = torch.arange(self.keys, device=self.start.device)
            return self.queries - 1 - torch.searchsorted(reach, key, right=True)
        last = torch.full((self.keys,), -1, dtype=torch.int64, device=self.start.device)
        for row, (start, stop) in enumerate(zip(self.start.tolist(), self.stop.tolist(), strict=True)):
            last[start:stop] = row
        return last
