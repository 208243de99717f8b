"""The texts that pages have open, and the models that they were run through."""

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import cached_property
from reprlib import repr as short  # of a value that may be large or deep
from typing import Any

import xarray as xr

from identiformer.errors import InputError
from identiformer.explorer.background import TextReader
from identiformer.measures.maps import MAPS
from identiformer.models import Answer, Model, Picture
from identiformer.models.encoding.image_audio import takes_images
from identiformer.models.generation.settings import Generation
from identiformer.options import DIRECTIONS
from identiformer.page.layer_maps import pack_layer, restrict_rows
from identiformer.page.panels import answer_panel
from identiformer.page.summary import summarize
from identiformer.passage import Passage
from identiformer.trace import FactoredLayer, RecordedLayer

MOST_CHARACTERS = 30_000
MAP_CHOICES = [
    {"name": kind.name, "title": kind.title, "formula": kind.formula, "paper": kind.paper}
    for kind in MAPS.values()
    if not kind.explains_output and kind.name != "raw"
]
"""The maps that a page can show next to raw attention."""
PASS = 0.6
"""How long a backward pass for one direction takes, next to a run that records attention."""
MOST_TEXTS = 3
"""Open texts, one of which may be compared with another: the attention of one of 512 tokens takes hundreds of megabytes."""
ROWS_IN_VIEW = 256
"""Rows that a page fetches at once of a long text, whose attention is kept in factored form."""


class OpenText:
    """A passage that a page shows, with one of its attention types."""

    def __init__(
        self, passage: Passage, corpus: xr.Dataset | None = None, prompt: str | None = None, seconds: float = 0.0
    ) -> None:
        self.id = secrets.token_hex(8)
        self.passage = passage
        self.corpus = corpus
        """`token_attribution` of the same model over a corpus."""
        self.prompt = prompt
        """What the user typed, if the text is an answer to it."""
        self.seconds = seconds
        """How long the model took to run."""
        self._layers: dict[int, bytes] = {}

    def summary(self) -> dict[str, Any]:
        """What a page shows first."""
        passage, stack = self.passage, self.passage.stack
        recorded = isinstance(stack.layers[0], RecordedLayer)
        summary = summarize(
            passage.trace, kind=stack.kind, reading=self.reader.reading if recorded else None, picture=passage.picture
        )
        if passage.picture is not None:
            summary["text"] = ""
        if passage.answer is not None and self.prompt is not None:
            summary |= {"text": self.prompt, "answer": answer_panel(passage.answer, self.prompt)}
        elif (
            self.window is None and passage.picture is None and stack.kind == passage.trace.stacks[0].kind
        ):  # the layers that maps are computed of
            summary["maps"] = MAP_CHOICES
        # The attribution of one token takes one backward pass per layer and direction, in batches.
        seconds = round(PASS * DIRECTIONS * len(stack.layers) * self.seconds, 1)
        return {"id": self.id, **summary, "window": self.window, "attribution_seconds": seconds}

    @cached_property
    def reader(self) -> TextReader:
        """What reads the text in the background, and keeps what it has read."""
        return TextReader(self.passage)

    def certified(self, layer: int, head: int) -> bytes:
        """How much of each weight of a head is certified, in 255ths, one byte per weight."""
        fractions = self.reader.fractions.get((layer, head))
        if fractions is None:
            raise InputError(f"expected a head that was certified, got layer {layer}, head {head}; wait until it is.")
        return fractions

    @property
    def window(self) -> int | None:
        """How many rows a page fetches at once; None for all."""
        stack = self.passage.stack
        return ROWS_IN_VIEW if isinstance(stack.layers[0], FactoredLayer) and len(stack.queries) > ROWS_IN_VIEW else None

    def layer(self, number: int) -> bytes:
        """What the maps of one layer are computed from."""
        if number not in self._layers:
            self._layers[number] = pack_layer(self.passage.trace.layer(number, self.passage.kind))
        return self._layers[number]

    def rows(self, number: int, first: int) -> bytes:
        """The same for the rows in view."""
        queries = len(self.passage.stack.queries)
        layer = self.passage.trace.layer(number, self.passage.kind)
        if not isinstance(layer, FactoredLayer) or not 0 <= first < queries:
            raise InputError(f"expected a row from 0 to {queries - 1} of a long text, got {first}; reload the page.")
        return pack_layer(restrict_rows(layer, range(first, min(first + ROWS_IN_VIEW, queries))))


class Texts:
    """The open texts by id, and models by name, which are loaded on first use."""

    def __init__(
        self,
        load: Callable[[str], Model],
        names: list[str],
        loaded: dict[str, Model],
        corpus: xr.Dataset | None = None,
        picture: Picture | None = None,
        generation: Generation | None = None,
    ) -> None:
        self.names = names
        self._picture, self._generation = picture, generation
        self._corpus = corpus
        self._load = load
        self._models = dict(loaded)
        self._texts: OrderedDict[str, OpenText] = OrderedDict()
        self._lock = threading.Lock()
        self._loading = threading.Lock()

    def open(self, text: Any, pair: Any, name: Any, truncate: bool = False) -> OpenText:
        """Run a text, or a pair of texts, through a model; truncate it at the model's limit if `truncate`."""
        if name not in self.names:
            raise InputError(f"expected one of {', '.join(self.names)}, got {short(name)}; start it with --model for another.")
        if not isinstance(text, str) or not isinstance(pair, str | None):
            raise InputError("expected a text, and optionally a second one, got something else; reload the page.")
        length = max(len(text), len(pair or ""))
        if length > MOST_CHARACTERS:
            raise InputError(f"expected a text of at most {MOST_CHARACTERS} characters, got {length}; shorten it.")
        with self._loading:  # not the lock of the texts, which stay readable while a model loads
            if name not in self._models:
                self._models[name] = self._load(name)
        model = self._models[name]
        content = self._content(model, text, pair or None)
        passage = Passage.of(model, content, pair or None, truncate=truncate)
        start = time.monotonic()
        _ = passage.trace
        seconds = time.monotonic() - start
        of_this_model = self._corpus is not None and self._corpus.attrs["revision"] == model.revision
        prompt = text if isinstance(content, Answer) else None
        return self._keep(OpenText(passage, self._corpus if of_this_model else None, prompt, seconds))

    def _content(self, model: Model, text: str, pair: str | None) -> str | Picture | Answer:
        """What a model reads: the image that the explorer was started with, an answer, or the text."""
        if takes_images(model.network):
            if self._picture is None:
                raise InputError(f"expected an image for {model.name}; start the explorer with --image FILE.")
            return self._picture
        if self._generation is None:
            return text
        if pair is not None:
            raise InputError("expected one prompt, got a pair of texts; remove the second text, or start without --generate.")
        return model.generate(text, **vars(self._generation))

    def open_kind(self, text_id: str, kind: str) -> OpenText:
        """Open another attention type of an open text: an encoder-decoder has three."""
        text = self.find(text_id)
        kinds = [stack.kind for stack in text.passage.trace.stacks]
        if kind not in kinds:
            raise InputError(f"expected one of the attention types of this text ({', '.join(kinds)}), got {short(kind)}.")
        return self._keep(OpenText(text.passage.view(kind=kind), text.corpus, text.prompt, text.seconds))

    def _keep(self, text: OpenText) -> OpenText:
        with self._lock:
            self._texts[text.id] = text
            while len(self._texts) > MOST_TEXTS:
                self._texts.popitem(last=False)
        return text

    def find(self, text_id: str) -> OpenText:
        """An open text."""
        with self._lock:
            if text_id not in self._texts:
                raise InputError("this text is no longer open, because others were opened after it; open it again.")
            self._texts.move_to_end(text_id)
            return self._texts[text_id]
