"""The reading of a text while its page is open: contributions at once, then own content, and bounds of one head after another."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from identiformer.equations.certificates.map_bounds import MapBounds
from identiformer.explorer.contents import Content
from identiformer.measures.attention.ambiguity import default_tolerance
from identiformer.measures.attention.certification import certify_heads, expected_cost, head_to_certify
from identiformer.measures.attention.reading import read_bounds, self_contributions
from identiformer.models import Model
from identiformer.page.reading import reading_panel
from identiformer.progress import WorkBar
from identiformer.readings import Reading
from identiformer.readings.heads import first_head, read_heads
from identiformer.readings.reading import DIRECTIONS, attribute
from identiformer.trace import Trace

STEPS = 255
"""Certified fractions are sent to the page in one byte each."""


class TextReader:
    """Reads one text. What was computed is kept, so a canceled reading continues where it stopped."""

    def __init__(self, model: Model, trace: Trace, kind: str, content: Content) -> None:
        self.model, self.trace, self.kind, self.content = model, trace, kind, content
        self.stack = trace.stack(kind)
        self.tolerance = default_tolerance(trace.layer(1, kind).recorded().values.dtype)
        self.fractions: dict[tuple[int, int], bytes] = {}
        """By layer and head: how much of each weight is certified, in 255ths."""
        self._own: np.ndarray | None = None
        self.numbers = read_heads(trace, kind)

    def first(self) -> tuple[int, int, str]:
        """The layer and head to show first, and why."""
        return first_head(self.numbers)

    def panel(self) -> dict[str, Any]:
        """What the page shows of the reading so far."""
        certified = np.zeros(self.numbers.certified.shape, bool)
        for layer, head in self.fractions:
            certified[layer - 1, head] = True
        # Before every head is certified, the shares of all together are upper bounds.
        settings = {**json.loads(self.numbers.attrs["settings"]), "certified": bool(certified.all())}
        result = self.numbers.assign_attrs(settings=json.dumps(settings))
        layers = [layer.number for layer in self.stack.layers]
        sentences = Reading(result, (), (), ()).overview()
        return reading_panel(
            self.numbers, self.stack.keys.texts, certified, layers, self.numbers.sizes["head"], sentences=sentences
        )

    def read(self, bar: WorkBar, show: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        """Compute own content, and certify heads: the one shown, then the cheapest first; `show` gets the panel after each."""
        layer, head, _ = self.first()
        every = [(record.number, index) for record in self.stack.layers for index in range(record.heads)]
        costs = {name: expected_cost(self.stack.layers[name[0] - 1].recorded().weights[name[1]]) for name in every}
        left = sorted(set(every) - set(self.fractions), key=lambda name: (name != (layer, head), costs[name], name))
        # Categories and certified fractions follow from lower bounds: an upper one matters where a contribution is negative.
        jobs = [
            head_to_certify(name, self.stack.layers[name[0] - 1].recorded(), name[1], self.tolerance, upper=False)
            for name in left
        ]
        with ThreadPoolExecutor(1) as executor:
            own_content = executor.submit(self._attribute, _Canceling(bar))
            for number, index, bounds in certify_heads(jobs, None, bar):
                self._keep(number, index, bounds)
                show(self.panel())
            own_content.result()
        self._apply_own_content()
        return self.panel()

    def _keep(self, layer: int, head: int, bounds: MapBounds) -> None:
        """Update the numbers of one head by its bounds."""
        result = read_bounds(self.stack.layers[layer - 1].recorded(), head, bounds, self.tolerance)
        at = {"layer": layer, "head": head}
        numbers = self.numbers.copy(deep=True)
        numbers.certified.loc[at] = result.certified.sum(-1).nanmean()
        numbers.contributing.loc[at] = result.contributing.sum(-1).nanmean()
        numbers.contributing_by_key.loc[at] = result.contributing.nanmean(0).numpy()
        self.numbers = numbers
        weights = self.stack.layers[layer - 1].recorded().weights[head].double()
        fraction = (bounds.low.nan_to_num().clamp(min=0) / weights.clamp(min=1e-12)).clamp(max=1)
        # Rounded down, so that what the page calls certified is.
        self.fractions[layer, head] = (fraction * STEPS).floor().byte().numpy().tobytes()
        self._apply_own_content()

    def _apply_own_content(self) -> None:
        if self._own is None:
            return
        own = self.numbers.self_contribution.copy(data=self._own)
        readable = (self.numbers.contributing_by_key * own).sum("key", skipna=False)
        self.numbers = self.numbers.assign(self_contribution=own, readable=readable)

    def _attribute(self, bar: WorkBar) -> None:
        """How much of each key's vector is its own token."""
        if self._own is not None:
            return
        attribution = attribute(
            self.model, self.trace, self.content.text, self.content.pair, layers=None, kind=self.kind, directions=DIRECTIONS,
            truncate=True, progress=bar,
        )  # fmt: skip
        own, _ = self_contributions(attribution, self.stack, [layer.number for layer in self.stack.layers])
        self._own = own.numpy()


class _Canceling:
    """A bar for work next to the main one: it is canceled with it, and does not count."""

    def __init__(self, bar: WorkBar) -> None:
        self._bar = bar

    def expect(self, amount: int) -> None:
        self._bar.expect(0)

    def advance(self, amount: int) -> None:
        self._bar.advance(0)
