"""How long each computation took, and how long it would take with the paper's settings."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from identiformer.paper.computations.study import Study

PAPER_RESPLITS = 10
PAPER_EXAMPLES = {"MRPC": 408, "CoLA": 1043, "MNLI": 500, "steps": 408, "neighbors": 408}
PAPER_ATTRIBUTED = {"MRPC": 408, "CoLA": 1043, "MNLI": 4000}
PAPER_TRAINED = {"MRPC": 3668, "CoLA": 8551}
"""Training examples for fine-tuning."""
ADAM_TO_CLOSED = 110
"""How many times longer Adam takes than the closed form to fit linear probes, measured over the layers of gte-small."""


@dataclass(frozen=True)
class Timed:
    """The duration of one computation."""

    name: str
    seconds: float
    papers: float
    """Seconds with the paper's settings, extrapolated from ours."""
    why: str
    """How the paper's settings differ."""
    figures: str
    """The figures that use the computation."""


def durations(study: Study, used: Mapping[str, Collection[str]]) -> list[Timed]:
    """The duration of every computation of a study. used: the computations that each figure uses."""
    return [
        Timed(name, seconds, *_with_papers_settings(name, seconds, study), _ranges([fig for fig in used if name in used[fig]]))
        for name, seconds in study.seconds.items()
    ]


def _ranges(figures: Sequence[str]) -> str:
    """List figures, three or more consecutive ones as a range: 3, 4, 26-37."""
    runs: list[list[str]] = []
    for figure in figures:
        follows = runs and figure.isdigit() and runs[-1][-1].isdigit() and int(figure) == int(runs[-1][-1]) + 1
        runs[-1].append(figure) if follows else runs.append([figure])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(run) for run in runs)


def _with_papers_settings(name: str, seconds: float, study: Study) -> tuple[float, str]:
    kind, _, dataset = name.removesuffix("_mlp").partition("_")
    scale = study.scale
    if kind == "attribution" and dataset in PAPER_ATTRIBUTED:
        width = int(study.model.network.config.hidden_size)
        examples = PAPER_ATTRIBUTED[dataset] / (scale.attributed[dataset] or PAPER_ATTRIBUTED[dataset])
        more = f"exact Jacobians, {width} directions for our {scale.directions[dataset]}"
        return seconds * examples * width / scale.directions[dataset], more + _times(examples)
    if name.endswith("_mlp"):
        purpose = kind if kind in ("steps", "neighbors") else dataset
        examples = PAPER_EXAMPLES[purpose] / (scale.perceptron_examples[purpose] or PAPER_EXAMPLES[purpose])
        return seconds * examples * PAPER_RESPLITS / scale.perceptrons, f"{PAPER_RESPLITS} resplits" + _times(examples)
    if kind in ("identifiability", "transfer", "steps", "neighbors"):
        examples = PAPER_EXAMPLES[dataset] / (scale.identified[dataset] or PAPER_EXAMPLES[dataset])
        resplits = PAPER_RESPLITS / scale.resplits_for(kind)
        return seconds * examples * resplits * ADAM_TO_CLOSED, "linear probes by Adam" + _times(examples * resplits)
    if kind == "finetuned" and scale.trained is not None:  # for all tasks at once, whichever is needed first
        examples = sum(PAPER_TRAINED.values()) / (len(PAPER_TRAINED) * scale.trained)
        return seconds * examples, f"all training examples, {examples:.3g} times ours"
    return seconds, ""


def _times(factor: float) -> str:
    return "" if factor == 1 else f", {factor:.3g} times the examples and resplits"
