"""What the figures show: each computation is made once and stored."""

import json
import re
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import xarray as xr

from identiformer.errors import IdentiformerError
from identiformer.figures.style import short_name
from identiformer.files import write_file
from identiformer.measures import (
    effective_attention,
    learning_curve,
    token_attribution,
    token_identifiability,
    token_neighbors,
    token_steps,
    token_transfer,
)
from identiformer.models import Model, load
from identiformer.paper.computations.data import MAX_LENGTH, Data, Passage, Scale
from identiformer.paper.computations.sharing import Measure, concatenate, finetune_each, share_layers
from identiformer.probes import Method
from identiformer.results import open_result, save_result
from identiformer.results.schema import first_middle_last, middle_layer
from identiformer.runs import Run, run
from identiformer.texts import Corpus, Example, read_corpus, read_wikitext, segments
from identiformer.texts.tagging import load_tagger
from identiformer.typed_json import read_json

PAPERS_MODEL = "bert-base-uncased"
TASKS = ("MRPC", "CoLA")
"""The tasks for which several workers fine-tune at once."""
LENGTHS = tuple(range(16, MAX_LENGTH + 1, 16))
LINEAR = ("linear cosine", "linear l2")
NAIVE = ("naive cosine", "naive l2")
PLAIN = (*NAIVE, *LINEAR)
PERCEPTRONS = ("mlp cosine", "mlp l2")
LEARNING_RATE = 1e-3
"""For MLP probes, from the grid of B.1: takes a third of the time of 1e-4 and recovers as many tokens."""


@dataclass(frozen=True, eq=False)
class Study:
    """A model, data and a scale, and the folder in which results are stored."""

    model: Model
    data: Data
    scale: Scale
    folder: Path
    workers: int = 1
    """Processes that share the work, by Ray if there are several."""
    progress: bool = False
    passage: Passage = field(default_factory=Passage)
    """The text of Fig. 6."""
    pair: Example | None = None
    """The texts of Figs. 19-25; by default the first pair of MRPC."""
    used: set[str] = field(default_factory=set)
    """The computations used since it was last cleared, which is before each figure."""

    @property
    def model_name(self) -> str:
        return short_name(self.model.name)

    @property
    def layers(self) -> int:
        return int(self.model.network.config.num_hidden_layers)

    @property
    def middle_layer(self) -> int:
        return middle_layer(range(1, self.layers + 1))

    @property
    def selected_layers(self) -> list[int]:
        """The first, the middle, the second-to-last and the last layer: 1, 6, 11 and 12 of 12."""
        return first_middle_last(range(1, self.layers + 1), second_last=True)

    @property
    def is_papers_model(self) -> bool:
        """Whether this is the model of the paper's numbers, by name: a model trained further has the same shape."""
        return self.model_name == PAPERS_MODEL

    @property
    def head_width(self) -> int:
        """The width of a head's values: texts with more tokens have a null space."""
        config = self.model.network.config
        return int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)

    def identifiability(self, dataset: str = "MRPC") -> xr.Dataset:
        """Figs. 2a, 7, 38, 39."""
        return self._with_perceptrons(f"identifiability_{dataset}", token_identifiability, dataset, dataset)

    def steps(self) -> xr.Dataset:
        """Fig. 11."""
        return self._with_perceptrons("steps_MRPC", token_steps, "MRPC", "steps")

    def task_steps(self, task: str, tuned: bool) -> xr.Dataset:
        """Figs. 12 and 13, before or after fine-tuning for the task."""

        def compute() -> xr.Dataset:
            model = self.finetuned(task) if tuned else self.model
            return self._shared(token_steps, task, methods=NAIVE, resplits=self.scale.resplits, model=model)

        return self.stored(f"{'finetuned' if tuned else 'plain'}_steps_{task}", compute)

    def finetuned(self, task: str) -> Model:
        """The model fine-tuned for a task; several workers fine-tune for all tasks at once."""
        several = TASKS if self.workers > 1 and task in TASKS else (task,)
        tasks = [name for name in several if not self.data.missing((name, f"{name} train"))]
        folders = {name: self.folder / "finetuned" / f"{self.model_name}-{name}" for name in tasks}
        finetune_each(self.model, self.data.name, folders, self.scale.trained, self.workers, self.progress)
        return load(folders[task])

    def learning_curve(self) -> xr.Dataset:
        """B.2, at the second-to-last layer."""
        methods, layers = [Method("mlp", "l2", "adam", LEARNING_RATE)], [self.selected_layers[-2]]
        options = {"methods": methods, "layers": layers, "resplits": self.scale.perceptrons}
        return self.stored("learning_curve_MRPC", lambda: self._shared(learning_curve, "MRPC", **options))

    def transfer(self) -> xr.Dataset:
        """Figs. 2b, 8-10."""
        options = {"layers": self.selected_layers, "dimension": "trained"}
        return self._with_perceptrons("transfer_MRPC", token_transfer, "MRPC", "MRPC", LINEAR, **options)

    def neighbors(self) -> xr.Dataset:
        """Figs. 14-17."""
        return self._with_perceptrons("neighbors_MRPC", token_neighbors, "MRPC", "neighbors", LINEAR)

    def attribution(self, dataset: str = "MRPC") -> xr.Dataset:
        """Figs. 3, 4, 18, 40-43."""
        return self._attribution(dataset, "token_attribution", f"attribution_{dataset}")

    def by_tag(self) -> xr.Dataset:
        """Figs. 26-37, from the same run as Fig. 3."""
        return self._attribution("MRPC", "self_contribution_by_tag", "by_tag_MRPC")

    def _attribution(self, dataset: str, measure: str, name: str) -> xr.Dataset:
        tagged = dataset == "MRPC" and self.why_no_tags is None
        measures = ("token_attribution", "self_contribution_by_tag") if tagged else ("token_attribution",)
        options = {"limit": self.scale.attributed[dataset], "directions": self.scale.directions[dataset]}
        file, folder = self.data.files[dataset], f"attribution_{dataset}"
        return self.stored(name, lambda: self._run(folder, file, self.model, measures, **options)[measure])

    @cached_property
    def why_no_tags(self) -> str | None:
        """Why the words of MRPC cannot be tagged; None if they can, or the file has tags already."""
        try:
            load_tagger()
        except IdentiformerError as error:
            pairs = read_corpus(self.data.files["MRPC"], self.scale.attributed["MRPC"])
            return None if all(pair.tagged for pair in pairs) else str(error)
        return None

    def attention(self) -> xr.Dataset:
        """Figs. 1b, 1c and 5."""
        return self.attention_over("attention_wiki", self.segments)

    def attention_by_length(self) -> xr.Dataset:
        """Fig. 1a."""
        return self.attention_over("attention_by_length", self.openings)

    def attention_of_short(self) -> xr.Dataset | None:
        """Fig. 1a, only texts that have at most as many tokens as a head is wide; None if there are none."""
        short = [text for text in self.openings if self.model.length(text.text) <= self.head_width]
        return self.attention_over("attention_of_short", short) if short else None

    def attention_over(self, name: str, corpus: Corpus, limit: int | None = None, task: str | None = None) -> xr.Dataset:
        """Effective attention over a corpus, of the model as it is or fine-tuned for a task."""

        def compute() -> xr.Dataset:
            model = self.model if task is None else self.finetuned(task)
            return self._run(name, corpus, model, ("effective_attention",), limit=limit)["effective_attention"]

        return self.stored(name, compute)

    def passage_attention(self) -> xr.Dataset:
        """Fig. 6."""
        layer, text, pair = max(1, self.layers // 3), self.passage.text, self.passage.pair
        return self.stored("passage", lambda: effective_attention(self.model.trace(text, pair, truncate=True), layers=[layer]))

    def pair_attribution(self) -> xr.Dataset:
        """Figs. 19-25."""
        text, pair = self.shown_pair.text, self.shown_pair.pair
        return self.stored("example", lambda: token_attribution(self.model, text, pair, truncate=True))

    @cached_property
    def shown_pair(self) -> Example:
        """The pair of Figs. 19-25."""
        return self.pair or read_corpus(self.data.files["MRPC"], 1)[0]

    @cached_property
    def pair_tokens(self) -> tuple[str, ...]:
        """The tokens of that pair."""
        return self.model.tokens(self.shown_pair.text, self.shown_pair.pair, truncate=True).texts

    @cached_property
    def compared_pairs(self) -> tuple[Example, ...]:
        """Some pairs of MRPC, for measures that take long."""
        return read_corpus(self.data.files["MRPC"], self.scale.compared)

    @cached_property
    def segments(self) -> list[Example]:
        """Pairs of Wikipedia spans."""
        texts = read_wikitext(self.data.files["wiki"])
        return segments(texts, self.model.length, self.scale.segments, longest=MAX_LENGTH)

    @cached_property
    def openings(self) -> list[Example]:
        """The first words of some segments, equally many of each length."""
        spans = [f"{segment.text} {segment.pair}".split() for segment in self.segments[: max(1, self.scale.segments // 8)]]
        return [Example(self._shortened(words, longest)) for longest in LENGTHS for words in spans]

    def _shortened(self, words: list[str], longest: int) -> str:
        """As many words as fit into a number of tokens."""
        fit = bisect_right(range(1, len(words) + 1), longest, key=lambda number: self.model.length(" ".join(words[:number])))
        return " ".join(words[: max(1, fit)])

    def _with_perceptrons(
        self, name: str, measure: Measure, dataset: str, purpose: str, methods: Sequence[str] = PLAIN, **options: Any
    ) -> xr.Dataset:
        """Probes in closed form on all examples and resplits, and MLP probes on as many as the scale allows."""
        measured = partial(self._shared, measure, dataset, **options)
        results = [self.stored(name, lambda: measured(methods=methods, resplits=self.scale.resplits_for(purpose)))]
        if self.scale.perceptrons:
            perceptrons = [Method("mlp", loss, "adam", LEARNING_RATE) for loss in ("cosine", "l2")]
            limit = self.scale.perceptron_examples[purpose] or self.scale.identified[dataset]
            few = {"methods": perceptrons, "limit": limit, "resplits": self.scale.perceptrons}
            results.append(self.stored(f"{name}_mlp", lambda: measured(**few)))
        return concatenate(results, "probe")

    def _shared(
        self, measure: Measure, dataset: str, model: Model | None = None, layers: Sequence[int] | None = None,
        dimension: str = "layer", **options: Any,
    ) -> xr.Dataset:  # fmt: skip
        """A measure of token identifiability, its layers shared among the workers."""
        common = {"limit": self.scale.identified[dataset], "max_length": MAX_LENGTH, "store": self.folder / "states"}
        corpus, chosen = self.data.files[dataset], layers or range(1, self.layers + 1)
        network = model or self.model
        return share_layers(measure, network, corpus, chosen, dimension, self.workers, self.progress, common | options)

    def _run(self, name: str, corpus: Corpus, model: Model, measures: Sequence[str], **options: Any) -> Run:
        """A corpus run in a folder of its own, continued if it was interrupted."""
        folder = self.folder / "runs" / name
        return run(
            corpus, model, measures, out=folder, max_length=MAX_LENGTH, resume=(folder / "settings.json").is_file(),
            workers=self.workers, engine="serial" if self.workers == 1 else "ray",
            progress="bar" if self.progress else "none", **options,
        )  # fmt: skip

    def mean_over_pairs(self, name: str, compute: Measure) -> xr.Dataset:
        """The mean of a result over some pairs of MRPC, each of which is stored."""
        return mean_over_texts(self.stored_for_each(name, self.compared_pairs, compute))

    def stored_for_each(self, name: str, texts: Sequence[Example], compute: Measure) -> list[xr.Dataset]:
        """One stored result per text."""
        return [self.stored(f"{name}_{number}", partial(compute, text)) for number, text in enumerate(texts)]

    def stored(self, name: str, compute: Callable[[], xr.Dataset]) -> xr.Dataset:
        """The result of this name, computed unless it is stored already."""
        path, computation = self.folder / "results" / f"{name}.zarr", re.sub(r"_\d+$", "", name)
        self.used.add(computation)  # the texts of a computation count together
        if not path.exists():
            start = time.monotonic()
            try:
                save_result(compute(), path)
            finally:  # time spent before an interruption counts
                spent = {computation: round(self.seconds.get(computation, 0.0) + time.monotonic() - start, 1)}
                write_file(self.folder / "seconds.json", json.dumps(self.seconds | spent, indent=2).encode())
        return open_result(path)

    @property
    def seconds(self) -> dict[str, float]:
        """How long each computation took."""
        path = self.folder / "seconds.json"
        return read_json(path, dict[str, float], "remove it and run again") if path.is_file() else {}


def mean_over_texts(results: Sequence[xr.Dataset]) -> xr.Dataset:
    """The mean of results of several texts, with the attributes of the first."""
    return xr.concat(results, "text", combine_attrs="override").mean("text", keep_attrs=True)
