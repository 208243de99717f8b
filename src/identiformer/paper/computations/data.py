"""Which texts the figures are computed from, and how many of them."""

import hashlib
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from identiformer.errors import InputError
from identiformer.texts import PASSAGE, read_corpus
from identiformer.texts.readers.sources import looks_like_a_dataset

FILES = {
    "MRPC": "MRPC/dev.tsv",
    "MRPC train": "MRPC/train.tsv",
    "CoLA": "CoLA/dev.tsv",
    "CoLA train": "CoLA/train.tsv",
    "MNLI": "MNLI/dev_matched.tsv",
    "wiki": "wiki/wiki.test.raw",
    "SST-2": "SST-2/dev.tsv",
    "SST-2 train": "SST-2/train.tsv",
    "TREC": "TREC/test.tsv",
    "TREC train": "TREC/train.tsv",
    "movies": "movies/test.jsonl",
    "movies train": "movies/train.jsonl",
}
"""The file of each dataset, by the name that recipes use."""
HUB_SPLITS = {"MRPC": "mrpc:validation", "CoLA": "cola:validation", "MNLI": "mnli:validation_matched"}
"""The same of GLUE on the hub, which lacks the others."""
MAX_LENGTH = 128
"""Tokens to which the paper truncates its texts."""


@dataclass(frozen=True)
class Data:
    """The datasets that are available."""

    name: str
    files: dict[str, Path | str]

    def missing(self, datasets: tuple[str, ...]) -> tuple[str, ...]:
        """The files of those datasets that are not available."""
        return tuple(FILES[dataset] for dataset in datasets if dataset not in self.files)

    def hashes(self, datasets: Collection[str]) -> dict[str, str]:
        """What identifies the content of those datasets that are there: the hash of a file, the name of one on the hub."""
        return {
            dataset: hashlib.sha256(file.read_bytes()).hexdigest() if isinstance(file, Path) else file
            for dataset, file in self.files.items()
            if dataset in datasets
        }


def find_data(data: str | os.PathLike[str]) -> Data:
    """Find the datasets of a GLUE folder, or of OWNER/NAME on the hub; raise if there are none."""
    name, folder = os.fspath(data), Path(data).expanduser()
    if not folder.exists() and "/" in name and looks_like_a_dataset(name, ()):
        on_hub = Data(name, {dataset: f"{name}:{split}" for dataset, split in HUB_SPLITS.items()})
        for corpus in on_hub.files.values():  # a dataset that cannot be fetched is an error now, not hours later
            read_corpus(corpus, 1)
        return on_hub
    files: dict[str, Path | str] = {dataset: folder / file for dataset, file in FILES.items() if (folder / file).is_file()}
    if not files:
        raise InputError(f"expected some of {', '.join(FILES.values())} in {folder}, found none; pass a GLUE folder.")
    return Data(str(folder), files)


@dataclass(frozen=True)
class Passage:
    """The text or pair of Figure 6, and the sentence whose rows are shown; by default all rows."""

    text: str = PASSAGE
    pair: str | None = None
    shown: str | None = None

    def __post_init__(self) -> None:
        if self.shown is not None and not any(self.shown in text for text in (self.text, self.pair or "")):
            raise InputError(f"expected a sentence of the passage to show, but {self.shown!r} is not in it.")

    @property
    def is_embedded(self) -> bool:
        """Whether it is the passage that comes with the package."""
        return self == Passage()


@dataclass(frozen=True)
class Scale:
    """How much is computed, by dataset where it differs; None means all there is."""

    name: str
    identified: Mapping[str, int | None]
    """Examples for token identifiability."""
    resplits: int
    neighbor_resplits: int
    """Resplits for the six neighbors of each token, each of which is a task by itself."""
    perceptrons: int
    """Resplits on which MLP probes are trained, which takes most of a minute each; 0 omits them."""
    perceptron_examples: Mapping[str, int | None]
    """Examples on which MLP probes are trained: by dataset, and for steps and neighbors."""
    attributed: Mapping[str, int | None]
    """Examples for Hidden Token Attribution."""
    directions: Mapping[str, int]
    """Random directions per token for Hidden Token Attribution."""
    trained: int | None
    """Examples on which models are fine-tuned."""
    segments: int
    """Pairs of Wikipedia spans."""
    compared: int
    """Pairs for the figures beyond the paper."""
    exact: int
    """Sentences for the comparison of options, whose full Jacobians take a minute per sentence."""

    def resplits_for(self, purpose: str) -> int:
        """Resplits for linear probes: of neighbors, or of anything else."""
        return self.neighbor_resplits if purpose == "neighbors" else self.resplits

    def examples(self, dataset: str, limits: Mapping[str, int | None]) -> str:
        """Describe which examples of a dataset are used."""
        number = limits[dataset]
        return f"{dataset}, {'all examples' if number is None else f'the first {number} examples'}"


FULL = Scale(
    "full",
    identified={"MRPC": None, "CoLA": None, "MNLI": 500},
    resplits=10,
    neighbor_resplits=3,
    perceptrons=1,
    perceptron_examples={"MRPC": None, "CoLA": 200, "MNLI": 60, "steps": 40, "neighbors": 30},
    attributed={"MRPC": None, "CoLA": None, "MNLI": 1000},
    directions={"MRPC": 3, "CoLA": 3, "MNLI": 2},
    trained=2000,
    segments=1000,
    compared=16,
    exact=2,
)
"""What two cores compute in hours."""
QUICK = Scale(
    "quick",
    identified={"MRPC": 80, "CoLA": 200, "MNLI": 80},
    resplits=3,
    neighbor_resplits=3,
    perceptrons=0,
    perceptron_examples={},
    attributed={"MRPC": 10, "CoLA": 32, "MNLI": 12},
    directions={"MRPC": 3, "CoLA": 3, "MNLI": 3},
    trained=64,
    segments=64,
    compared=1,
    exact=1,
)
"""What two cores compute in minutes."""
