"""The statements "query attends to key" and the attention sinks that a reading names, collected head by head."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from identiformer.equations.certificates.contributions import CATEGORIES
from identiformer.measures.heads.heads import Heads
from identiformer.measures.heads.reading import HeadReading

STATEMENTS = 10
SINKS = 3
SINK_SHARE = 0.1
"""A head that puts less of its weight on attention sinks is not said to attend to one."""
READABLE = CATEGORIES.index("readable")


@dataclass(frozen=True)
class Statement:
    """'Query attends to key' in one head, and which tests it passes."""

    layer: int
    head: int
    query: int
    query_token: str
    key: int
    key_token: str
    weight: float
    certified: float
    contribution: float
    own_content: float
    readable: float
    category: str

    @property
    def pair(self) -> str:
        """The query and the key, with their positions."""
        return f"‘{self.query_token}’ {self.query} → ‘{self.key_token}’ {self.key}"


@dataclass(frozen=True)
class Sink:
    """The attention sink of one head: means over all rows."""

    layer: int
    head: int
    key: int
    key_token: str
    weight: float
    certified: float
    contribution: float
    scale: float
    effects: xr.Dataset | None = None
    """Of interventions on it, where they were made."""


class Statements:
    """The best statement of each head and its sink, while readings arrive in any order."""

    def __init__(self, heads: Heads) -> None:
        self._heads = heads
        special = torch.tensor([heads.stack.queries.special[row] for row in heads.rows])
        self._stated = (~special if not bool(special.all()) else special)[:, None]
        """Rows of special tokens count only if there are no others."""
        self._found: dict[str, dict[tuple[int, int], tuple[float, Any]]] = {"holding": {}, "failing": {}, "sinks": {}}

    def add(self, reading: HeadReading) -> None:
        """Take what one head has to say, in place of an earlier reading of it."""
        category, name = reading.category, (reading.head.layer, reading.head.head)
        is_readable = self._stated & (category == READABLE)
        fails = self._stated & (category >= 0) & (category != READABLE)
        found: dict[str, Any] = {
            "holding": self._best(reading.passed.readable, is_readable, reading),
            "failing": self._best(reading.weight, fails, reading),
        }
        share, key = reading.sinks()
        if share >= SINK_SHARE:
            found["sinks"] = share, self._sink(reading, key)
        for what, kept in self._found.items():
            kept.pop(name, None)
            if found.get(what) is not None:
                kept[name] = found[what]

    @property
    def holding(self) -> tuple[Statement, ...]:
        """The statements that pass all tests best, one per head."""
        return self._largest("holding", STATEMENTS)

    @property
    def failing(self) -> tuple[Statement, ...]:
        """The largest weights that fail a test, one per head."""
        return self._largest("failing", STATEMENTS)

    @property
    def sinks(self) -> tuple[Sink, ...]:
        """The heads with most weight on sinks."""
        return self._largest("sinks", SINKS)

    def _largest(self, what: str, count: int) -> tuple[Any, ...]:
        ordered = sorted(self._found[what].items(), key=lambda entry: (-entry[1][0], entry[0]))
        return tuple(found for _, (_, found) in ordered[:count])

    def _best(self, scores: Tensor, candidates: Tensor, reading: HeadReading) -> tuple[float, Statement] | None:
        scored = torch.where(candidates, scores.nan_to_num(), -1.0)
        row, key = divmod(int(scored.argmax()), scored.shape[1])
        best = float(scored[row, key])
        return (best, self._statement(reading, row, key)) if best > 0 else None

    def _statement(self, reading: HeadReading, row: int, key: int) -> Statement:
        stack, query = self._heads.stack, self._heads.rows[row]
        return Statement(
            layer=reading.head.layer,
            head=reading.head.head,
            query=query,
            query_token=stack.queries.texts[query],
            key=key,
            key_token=stack.keys.texts[key],
            weight=float(reading.weight[row, key]),
            certified=float(reading.low[row, key]),
            contribution=float(reading.contribution[row, key]),
            own_content=float(reading.self_contribution[key]),
            readable=float(reading.passed.readable[row, key]),
            category=CATEGORIES[int(reading.category[row, key])],
        )

    def _sink(self, reading: HeadReading, key: int) -> Sink:
        weight = float(reading.weight[:, key].mean())
        return Sink(
            layer=reading.head.layer,
            head=reading.head.head,
            key=key,
            key_token=self._heads.stack.keys.texts[key],
            weight=weight,
            certified=float(np.nanmean(reading.low[:, key].numpy())),
            contribution=float(np.nanmean(reading.contribution[:, key].numpy())),
            scale=1 - weight,
        )
