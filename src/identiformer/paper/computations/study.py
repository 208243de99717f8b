"""The computations behind the figures: each is made once, kept, and found again."""

import json
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import xarray as xr

from identiformer.errors import IdentiformerError
from identiformer.figures.naming import short_name
from identiformer.files import write_whole
from identiformer.measures import (
    effective_attention,
    learning_curve,
    token_attribution,
    token_identifiability,
    token_neighbors,
    token_steps,
    token_transfer,
)
from identiformer.measures.attribution.hidden_token import DIRECTIONS
from identiformer.models import Model, load
from identiformer.paper.computations.data import LONGEST, Data
from identiformer.paper.computations.finetuning import finetune_each
from identiformer.paper.computations.scale import Scale
from identiformer.paper.computations.sharing import put_together, share_layers
from identiformer.paper.passage import Passage
from identiformer.probes import Method
from identiformer.results import open_result, save_result
from identiformer.runs import Run, run
from identiformer.texts import Corpus, Example, read_corpus, read_wikitext, segments
from identiformer.texts.tagging.tags import load_tagger
from identiformer.typed_json import read_json

PAPERS_MODEL = "bert-base-uncased"
TASKS = ("MRPC", "CoLA")
"""For which models are fine-tuned."""
LENGTHS = tuple(range(16, LONGEST + 1, 16))
LINEAR = ("linear cosine", "linear l2")
NAIVE = ("naive cosine", "naive l2")
PLAIN = (*NAIVE, *LINEAR)
PERCEPTRONS = ("mlp cosine", "mlp l2")
LEARNING_RATE = 1e-3
"""Of the grid of B.1, for MLPs: a third of the time that 1e-4 takes, and tokens found as well."""


@dataclass(frozen=True, eq=False)
class Study:
    """A model, data and a scale; and where results are kept."""

    model: Model
    data: Data
    scale: Scale
    folder: Path
    workers: int = 1
    """Processes among which the work is shared, by Ray if there are several."""
    progress: bool = False
    read: Passage = field(default_factory=Passage)
    """The text of Fig. 6."""
    pair: Example | None = None
    """Of Figs. 19-25; the first pair of MRPC without it."""
    used: set[str] = field(default_factory=set)
    """The computations that were asked for; emptied before each figure, to tell on which it rests."""

    @property
    def model_name(self) -> str:
        return short_name(self.model.name)

    @property
    def layers(self) -> int:
        return int(self.model.network.config.num_hidden_layers)

    @property
    def some_layers(self) -> list[int]:
        """The first, the middle, the last but one and the last, which are 1, 6, 11 and 12 of 12."""
        return sorted({1, max(1, self.layers // 2), max(1, self.layers - 1), self.layers})

    @property
    def is_the_papers(self) -> bool:
        """Whether quoted numbers are those of this model, by its name: one that was trained further has the same shape."""
        return self.model_name == PAPERS_MODEL

    def identifiability(self, part: str = "MRPC") -> xr.Dataset:
        """Figs. 2a, 7, 38, 39."""
        return self._with_perceptrons(f"identifiability_{part}", token_identifiability, part, part)

    def steps(self) -> xr.Dataset:
        """Fig. 11."""
        return self._with_perceptrons("steps_MRPC", token_steps, "MRPC", "steps")

    def plain_steps(self, task: str) -> xr.Dataset:
        """Figs. 12 and 13, the model as it is."""
        return self.kept(f"plain_steps_{task}", lambda: self._steps(self.model, task))

    def finetuned_steps(self, task: str) -> xr.Dataset:
        """Figs. 12 and 13, fine-tuned for the task."""
        return self.kept(f"finetuned_steps_{task}", lambda: self._steps(self.finetuned(task), task))

    def finetuned(self, task: str) -> Model:
        """Several workers train for all tasks at once, one of them each."""
        tasks = [each for each in TASKS if not self.data.missing((each, f"{each} train"))] if self.workers > 1 else [task]
        folders = {each: self.folder / "finetuned" / f"{self.model_name}-{each}" for each in tasks}
        finetune_each(self.model, self.data.name, folders, self.scale.trained, self.workers, self.progress)
        return load(folders[task])

    def _steps(self, model: Model, task: str) -> xr.Dataset:
        return self._shared(token_steps, task, methods=NAIVE, resplits=self.scale.resplits, model=model)

    def learning_curve(self) -> xr.Dataset:
        """B.2, at the last layer but one."""
        methods, layers = [Method("mlp", "l2", "adam", LEARNING_RATE)], [self.some_layers[-2]]
        options = {"methods": methods, "layers": layers, "resplits": self.scale.perceptrons}
        return self.kept("learning_curve_MRPC", lambda: self._shared(learning_curve, "MRPC", **options))

    def transfer(self) -> xr.Dataset:
        """Figs. 2b, 8-10."""
        own = {"layers": self.some_layers, "dimension": "trained"}
        return self._with_perceptrons("transfer_MRPC", token_transfer, "MRPC", "MRPC", LINEAR, **own)

    def neighbors(self) -> xr.Dataset:
        """Figs. 14-17."""
        return self._with_perceptrons("neighbors_MRPC", token_neighbors, "MRPC", "neighbors", LINEAR)

    def attribution(self, part: str = "MRPC") -> xr.Dataset:
        """Figs. 3, 4, 18, 40-43."""
        return self._attributed(part, "token_attribution", f"attribution_{part}")

    def by_tag(self) -> xr.Dataset:
        """Figs. 26-37, of the same run."""
        return self._attributed("MRPC", "self_contribution_by_tag", "by_tag_MRPC")

    def _attributed(self, part: str, measure: str, name: str) -> xr.Dataset:
        tagged = part == "MRPC" and self.why_no_tags is None
        measures = ("token_attribution", "self_contribution_by_tag") if tagged else ("token_attribution",)
        file, limit, directions = self.data.files[part], self.scale.attributed[part], self.scale.directions[part]
        return self.kept(name, lambda: self.run_over(f"attribution_{part}", file, measures, limit, directions)[measure])

    @cached_property
    def why_no_tags(self) -> str | None:
        """What keeps the words of MRPC from being tagged here; None if nothing does, or they are tagged already."""
        try:
            load_tagger()
        except IdentiformerError as error:
            pairs = read_corpus(self.data.files["MRPC"], self.scale.attributed["MRPC"])
            return None if all(pair.tagged for pair in pairs) else str(error)
        return None

    def attention(self) -> xr.Dataset:
        """Figs. 1b, 1c and 5."""
        return self.kept("attention_wiki", lambda: self._attention("attention_wiki", self.segments))

    def attention_of_short(self) -> xr.Dataset | None:
        """Fig. 1a, of texts no longer than a head is wide; None if there is none."""
        short = [text for text in self.openings if self.model.length(text.text) <= self.head_width]
        return self.kept("attention_of_short", lambda: self._attention("attention_of_short", short)) if short else None

    @property
    def head_width(self) -> int:
        config = self.model.network.config
        return int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)

    def attention_by_length(self) -> xr.Dataset:
        """Fig. 1a."""
        return self.kept("attention_by_length", lambda: self._attention("attention_by_length", self.openings))

    def _attention(self, name: str, corpus: Corpus) -> xr.Dataset:
        return self.run_over(name, corpus, ("effective_attention",))["effective_attention"]

    def passage(self) -> xr.Dataset:
        """Fig. 6."""
        layer = [max(1, self.layers // 3)]
        text, pair = self.read.text, self.read.pair
        return self.kept("passage", lambda: effective_attention(self.model.trace(text, pair, truncate=True), layers=layer))

    def example(self) -> xr.Dataset:
        """Figs. 19-25."""
        text, pair = self.followed.text, self.followed.pair
        return self.kept("example", lambda: token_attribution(self.model, text, pair, truncate=True))

    @cached_property
    def followed(self) -> Example:
        """The pair whose tokens are followed through the layers."""
        return self.pair or read_corpus(self.data.files["MRPC"], 1)[0]

    @cached_property
    def compared_pairs(self) -> tuple[Example, ...]:
        """Some pairs of MRPC, for what takes long."""
        return read_corpus(self.data.files["MRPC"], self.scale.compared)

    @cached_property
    def pair_tokens(self) -> tuple[str, ...]:
        return self.model.tokens(self.followed.text, self.followed.pair, truncate=True).texts

    @cached_property
    def segments(self) -> list[Example]:
        """Pairs of spans of Wikipedia."""
        return segments(read_wikitext(self.data.files["wiki"]), self.model.length, self.scale.segments, longest=LONGEST)

    @cached_property
    def openings(self) -> list[Example]:
        """The first words of some segments, as many of each length."""
        spans = [f"{segment.text} {segment.pair}".split() for segment in self.segments[: max(1, self.scale.segments // 8)]]
        return [Example(self._shortened(words, longest)) for longest in LENGTHS for words in spans]

    def _shortened(self, words: list[str], longest: int) -> str:
        """As many words as fit into so many tokens."""
        fit = bisect_right(range(1, len(words) + 1), longest, key=lambda number: self.model.length(" ".join(words[:number])))
        return " ".join(words[: max(1, fit)])

    def _with_perceptrons(
        self,
        name: str,
        measure: Callable[..., xr.Dataset],
        part: str,
        purpose: str,
        others: tuple[str, ...] = PLAIN,
        **options: Any,
    ) -> xr.Dataset:
        """Maps in closed form on all examples and resplits, and MLPs on as many as the scale allows."""
        measured = partial(self._shared, measure, part, **options)
        results = [self.kept(name, lambda: measured(methods=others, resplits=self.scale.resplits_for(purpose)))]
        if self.scale.perceptrons:
            methods = [Method("mlp", loss, "adam", LEARNING_RATE) for loss in ("cosine", "l2")]
            limit = self.scale.perceptron_examples[purpose] or self.scale.identified[part]
            own = {"methods": methods, "limit": limit, "resplits": self.scale.perceptrons}
            results.append(self.kept(f"{name}_mlp", lambda: measured(**own)))
        return put_together(results, "probe")

    def _shared(
        self,
        measure: Callable[..., xr.Dataset],
        part: str,
        model: Model | None = None,
        layers: Sequence[int] | None = None,
        dimension: str = "layer",
        **options: Any,
    ) -> xr.Dataset:
        """A measure of token identifiability, its layers shared among the workers."""
        common = {"limit": self.scale.identified[part], "max_length": LONGEST, "store": self.folder / "states"}
        every = layers or range(1, self.layers + 1)
        corpus, own = self.data.files[part], model or self.model
        return share_layers(measure, own, corpus, every, dimension, self.workers, self.progress, common | options)

    def run_over(
        self,
        name: str,
        corpus: Corpus,
        measures: Sequence[str],
        limit: int | None = None,
        directions: int = DIRECTIONS,
        model: Model | None = None,
    ) -> Run:
        """A run of its own folder, gone on with where it was."""
        folder = self.folder / "runs" / name
        resume = (folder / "settings.json").is_file()
        return run(
            corpus, model or self.model, measures, out=folder, max_length=LONGEST, resume=resume, workers=self.workers,
            engine="serial" if self.workers == 1 else "ray", limit=limit, directions=directions,
            progress="bar" if self.progress else "none",
        )  # fmt: skip

    def kept(self, name: str, compute: Callable[[], xr.Dataset]) -> xr.Dataset:
        path, computation = self.folder / "results" / f"{name}.zarr", name.rstrip("0123456789").rstrip("_")
        self.used.add(computation)  # the texts of a computation count together
        if not path.exists():
            start = time.monotonic()
            try:
                save_result(compute(), path)
            finally:  # a computation that is interrupted is gone on with: all its parts count
                self._add_time(computation, time.monotonic() - start)
        return open_result(path)

    def _add_time(self, name: str, seconds: float) -> None:
        spent = round(self.seconds.get(name, 0.0) + seconds, 1)
        write_whole(self.folder / "seconds.json", json.dumps(self.seconds | {name: spent}, indent=2).encode())

    @property
    def seconds(self) -> dict[str, float]:
        """How long each computation took."""
        path = self.folder / "seconds.json"
        return read_json(path, dict[str, float], "remove it and run again") if path.is_file() else {}
