"""The texts that pages have open: the last few are kept, and the models that they ran through."""

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import xarray as xr

from identiformer.errors import InputError
from identiformer.explorer.parsing import shown
from identiformer.models import Model
from identiformer.page.layer_maps import pack_layer, rows_of
from identiformer.page.summary import summarize
from identiformer.trace import FactoredLayer, Trace

MOST_CHARACTERS = 30_000
MOST_TEXTS = 2
"""Texts whose attention is kept: one of 512 tokens takes hundreds of megabytes."""


ROWS_IN_VIEW = 256
"""Of long texts, whose attention is kept in factored form."""


class OpenText:
    """A text that has run through a model."""

    def __init__(self, model: Model, trace: Trace, corpus: xr.Dataset | None, kind: str | None = None) -> None:
        self.number = secrets.token_hex(8)
        self.model = model
        self.trace = trace
        self.corpus = corpus
        """What `token_attribution` found over a corpus, of the same model."""
        self.kind = trace.stack(kind).kind
        self._layers: dict[int, bytes] = {}

    def summary(self) -> dict[str, Any]:
        """What a page shows first."""
        return {"id": self.number, **summarize(self.trace, kind=self.kind), "window": self.window}

    @property
    def window(self) -> int | None:
        """How many rows a page gets at once; None for all."""
        stack = self.trace.stack(self.kind)
        return ROWS_IN_VIEW if isinstance(stack.layers[0], FactoredLayer) and len(stack.queries) > ROWS_IN_VIEW else None

    def layer(self, number: int) -> bytes:
        """What makes the maps of one layer."""
        if number not in self._layers:
            self._layers[number] = pack_layer(self.trace.layer(number, self.kind))
        return self._layers[number]

    def rows(self, number: int, first: int) -> bytes:
        """What makes the maps of one layer, of the rows that are in view."""
        queries = len(self.trace.stack(self.kind).queries)
        layer = self.trace.layer(number, self.kind)
        if not isinstance(layer, FactoredLayer) or not 0 <= first < queries:
            raise InputError(f"expected a row from 0 to {queries - 1} of a long text, got {first}.")
        return pack_layer(rows_of(layer, range(first, min(first + ROWS_IN_VIEW, queries))))


class Texts:
    """What is open, by number; and models by name, loaded when first asked for."""

    def __init__(
        self, load: Callable[[str], Model], names: list[str], loaded: dict[str, Model], corpus: xr.Dataset | None = None
    ) -> None:
        self.names = names
        self._corpus = corpus
        self._load = load
        self._models = dict(loaded)
        self._texts: OrderedDict[str, OpenText] = OrderedDict()
        self._lock = threading.Lock()
        self._loading = threading.Lock()

    def open(self, text: Any, pair: Any, name: Any) -> OpenText:
        """Run a text, or a pair, through a model."""
        if name not in self.names:
            raise InputError(
                f"expected one of {', '.join(self.names)}, got {shown(name)}; start the explorer with --model for another."
            )
        if not isinstance(text, str) or not isinstance(pair, str | None):
            raise InputError("expected a text, and for a pair a second one.")
        length = max(len(text), len(pair or ""))
        if length > MOST_CHARACTERS:
            raise InputError(f"expected a text of at most {MOST_CHARACTERS} characters, got {length}; shorten it.")
        model = self._model(name)
        trace = model.trace(text, pair or None, raw_norms=True)
        known = self._corpus is not None and self._corpus.attrs["revision"] == model.revision
        return self._keep(OpenText(model, trace, self._corpus if known else None))

    def open_kind(self, number: str, kind: str) -> OpenText:
        """Open another attention type of an open text: an encoder-decoder has three."""
        text = self.find(number)
        kinds = [each.kind for each in text.trace.stacks]
        if kind not in kinds:
            raise InputError(f"expected one of the attention types of this text ({', '.join(kinds)}), got {shown(kind)}.")
        return self._keep(OpenText(text.model, text.trace, text.corpus, kind))

    def _keep(self, found: OpenText) -> OpenText:
        with self._lock:
            self._texts[found.number] = found
            while len(self._texts) > MOST_TEXTS:
                self._texts.popitem(last=False)
        return found

    def find(self, number: str) -> OpenText:
        """A text that is open."""
        with self._lock:
            if number not in self._texts:
                raise InputError("this text is no longer kept, since others were opened after it; open it again.")
            self._texts.move_to_end(number)
            return self._texts[number]

    def _model(self, name: str) -> Model:
        with self._loading:  # not the lock of the texts, which are looked at while a model loads
            if name not in self._models:
                self._models[name] = self._load(name)
            return self._models[name]
