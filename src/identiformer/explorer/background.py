"""The reading of a text while its page is open: contributions first, then self-contributions, and bounds head by head."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from identiformer.measures.heads.certification import expected_cost
from identiformer.measures.heads.example import head_to_show
from identiformer.measures.heads.heads import Heads
from identiformer.measures.heads.own_content import attribute, self_contributions
from identiformer.measures.heads.reading import HeadReading
from identiformer.measures.heads.stream import check_tolerance, read_heads
from identiformer.measures.heads.table import HeadTable
from identiformer.page.bounds import certified_fractions
from identiformer.page.reading import reading_panel
from identiformer.passage import Passage
from identiformer.progress import WorkBar
from identiformer.readings.reader import effective_of, patterns_of
from identiformer.readings.reading import Reading


class TextReader:
    """Reads one text. What was computed is kept, so a canceled reading continues where it stopped."""

    def __init__(self, passage: Passage) -> None:
        self.passage, self.heads = passage, Heads.of(passage)
        self.tolerance = check_tolerance(None, self.heads.dtype)
        self.fractions: dict[tuple[int, int], bytes] = {}
        """By layer and head: how much of each weight is certified, in 255ths."""
        self._table = HeadTable(self.heads, *self_contributions(None, self.heads.stack, self.heads.layers))
        self._attributed, self._lock = False, threading.Lock()
        for reading in read_heads(self.heads, self._table.own, self.tolerance, certify=False):
            self._table.add(reading)

    @property
    def reading(self) -> Reading:
        """What is known so far; before every head is certified, the shares of all together are upper bounds."""
        with self._lock:
            result = self._table.dataset(self.tolerance, certified=bool(self._table.bounded.all()))
        return Reading(result, effective=effective_of(self.heads), patterns=patterns_of(self.heads), finished=self._attributed)

    def panel(self) -> dict[str, Any]:
        """What the page shows of the reading so far."""
        layers = self.heads.stack.layers
        return reading_panel(self.reading, [layer.number for layer in layers], layers[0].heads)

    def read(self, bar: WorkBar, show: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        """Compute self-contributions, and certify heads: the one shown, then the cheapest; `show` gets the panel after each."""
        first = head_to_show(self._table.dataset(self.tolerance, certified=False))
        costs = {(head.layer, head.head): expected_cost(head.weights) for head in self.heads}
        left = sorted(set(costs) - set(self.fractions), key=lambda name: (name != first, costs[name], name))
        # Categories and certified fractions follow from lower bounds: an upper one matters where a contribution is negative.
        options: Any = {"certify": True, "order": left, "upper": False, "progress": bar}
        with ThreadPoolExecutor(1) as executor:
            own_content = executor.submit(self._attribute, _Canceling(bar))
            for reading in read_heads(self.heads, self._table.own, self.tolerance, **options):
                self._keep(reading)
                show(self.panel())
            own_content.result()
        return self.panel()

    def _keep(self, reading: HeadReading) -> None:
        """Update the numbers of one head by its bounds."""
        fractions = np.zeros((len(self.heads.stack.queries), len(self.heads.stack.keys)), np.uint8)
        fractions[self.heads.rows] = certified_fractions(reading.weight.numpy(), reading.low.numpy())
        with self._lock:
            self._table.add(reading)
            self._table.attribute(self._table.own)
        self.fractions[reading.head.layer, reading.head.head] = fractions.tobytes()

    def _attribute(self, bar: WorkBar) -> None:
        """Compute the self-contributions of the keys' vectors."""
        if self._attributed:
            return
        attribution = attribute(self.passage, progress=bar)
        own, _ = self_contributions(attribution, self.heads.stack, self.heads.layers)
        with self._lock:
            self._table.attribute(own)
            self._attributed = True


class _Canceling:
    """A bar for work next to the main one: it is canceled with it, and does not count."""

    def __init__(self, bar: WorkBar) -> None:
        self._bar = bar

    def expect(self, amount: int) -> None:
        self._bar.expect(0)

    def advance(self, amount: int) -> None:
        self._bar.advance(0)
