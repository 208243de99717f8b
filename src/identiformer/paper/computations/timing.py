"""How long each computation took, and how long it would take with the paper's own settings."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from identiformer.paper.computations.study import Study

PAPER_RESPLITS = 10
PAPER_EXAMPLES = {"MRPC": 408, "CoLA": 1043, "MNLI": 500, "steps": 408, "neighbors": 408}
PAPER_ATTRIBUTED = {"MRPC": 408, "CoLA": 1043, "MNLI": 4000}
PAPER_TRAINED = {"MRPC": 3668, "CoLA": 8551}
"""Examples of the training sets on which models are fine-tuned."""
ADAM_TO_CLOSED = 110
"""How many times longer Adam takes to find linear maps than the closed form: measured over the layers of gte-small."""
PURPOSES = {"steps_MRPC": "steps", "neighbors_MRPC": "neighbors"}
"""Of MLPs, where it is not the part that is in the computation's name."""


@dataclass(frozen=True)
class Timed:
    """One computation."""

    name: str
    seconds: float
    papers: float
    """Seconds by the paper's settings, extrapolated from ours."""
    why: str
    """What the paper does more."""
    figures: str
    """That rest on it."""


def timed(study: Study, rests: Mapping[str, Collection[str]]) -> list[Timed]:
    """All that a study has computed. rests: the computations that each figure rests on."""
    return [
        Timed(name, seconds, *_by_the_paper(name, seconds, study), _listed([figure for figure in rests if name in rests[figure]]))
        for name, seconds in study.seconds.items()
    ]


def _listed(figures: Sequence[str]) -> str:
    """In a row, neighbors as a range: 3, 4, 26-37."""
    runs: list[list[str]] = []
    for figure in figures:
        follows = runs and figure.isdigit() and runs[-1][-1].isdigit() and int(figure) == int(runs[-1][-1]) + 1
        runs[-1].append(figure) if follows else runs.append([figure])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(run) for run in runs)


def _by_the_paper(name: str, seconds: float, study: Study) -> tuple[float, str]:
    kind, _, part = name.removesuffix("_mlp").partition("_")
    scale = study.scale
    if kind == "attribution" and part in PAPER_ATTRIBUTED:
        width = int(study.model.network.config.hidden_size)
        examples = PAPER_ATTRIBUTED[part] / (scale.attributed[part] or PAPER_ATTRIBUTED[part])
        more = f"exact Jacobians, {width} directions for our {scale.directions[part]}"
        return seconds * examples * width / scale.directions[part], more + _times(examples)
    if name.endswith("_mlp"):
        purpose = PURPOSES.get(f"{kind}_{part}", part)
        examples = PAPER_EXAMPLES[purpose] / (scale.perceptron_examples[purpose] or PAPER_EXAMPLES[purpose])
        return seconds * examples * PAPER_RESPLITS / scale.perceptrons, f"{PAPER_RESPLITS} resplits" + _times(examples)
    if kind in ("identifiability", "transfer", "steps", "neighbors"):
        examples = PAPER_EXAMPLES[part] / (scale.identified[part] or PAPER_EXAMPLES[part])
        resplits = PAPER_RESPLITS / scale.resplits_for(kind)
        return seconds * examples * resplits * ADAM_TO_CLOSED, "linear maps by Adam" + _times(examples * resplits)
    if kind == "finetuned" and scale.trained is not None:  # for all tasks at once, whichever is asked for first
        examples = sum(PAPER_TRAINED.values()) / (len(PAPER_TRAINED) * scale.trained)
        return seconds * examples, f"all training examples, {examples:.3g} times ours"
    return seconds, ""


def _times(factor: float) -> str:
    return "" if factor == 1 else f", {factor:.3g} times the examples and resplits"
