"""Token identifiability: Figures 2, 7 to 17, 38 and 39."""

import numpy as np

from identiformer import figures
from identiformer.paper.claims import Quoted, Shape, falls, listed
from identiformer.paper.recipe import Recipe, whole
from identiformer.paper.study import LINEAR, PERCEPTRONS, Study

WOBBLE = 0.01
"""By which a curve that falls may rise from a layer to the next: about a standard deviation over resplits."""
TRANSFER = {"2b": "linear cosine", "8": "linear l2", "9": "mlp l2", "10": "mlp cosine"}
NEIGHBOURS = {"14": "linear cosine", "15": "mlp cosine", "16": "mlp l2", "17": "linear l2"}


def _caption(part: str):  # noqa: ANN202
    def caption(study: Study) -> str:
        maps = f"linear maps in closed form on {study.scale.resplits} resplits"
        trained = f"; MLPs by Adam on {study.scale.perceptrons}" if study.scale.perceptrons else ""
        return f"{study.model.name}; {study.scale.sentence(part, 'identified')}; {maps}{trained} (the paper: Adam, 10)."

    return caption


def _rates(study: Study, probe: str, part: str = "MRPC") -> np.ndarray:
    return study.identifiability(part).rate.sel(probe=probe).values


def _above(first: str, second: str, part: str = "MRPC"):  # noqa: ANN202
    def holds(study: Study) -> tuple[bool, str]:
        one, other = (_rates(study, probe, part).mean() for probe in (first, second))
        return bool(one >= other), f"on average {100 * one:.1f} % and {100 * other:.1f} %"

    return holds


def _late_serves_early(study: Study) -> tuple[bool, str]:
    own = study.transfer().rate.sel(probe="linear cosine", trained=study.layers).values
    return bool(own[: study.layers // 2].min() > own[-1]), listed(own)


def _first_is_lost(study: Study) -> tuple[bool, str]:
    own = study.transfer().rate.sel(probe="linear cosine", trained=1).values
    return bool(own[-1] < 0.7 and own[-2] < 0.7), listed(own)


def _farther_is_less(probe: str):  # noqa: ANN202
    def holds(study: Study) -> tuple[bool, str]:
        rates = study.neighbours().rate.sel(probe=probe).mean("layer")
        means = [float(rates.sel(offset=[-k, k]).mean()) for k in (1, 2, 3)]
        return falls(means)

    return holds


def _far_below_own(study: Study) -> tuple[bool, str]:
    beside = float(study.neighbours().rate.sel(probe="linear cosine", offset=[-1, 1]).mean())
    own = float(_rates(study, "linear cosine").mean())
    return beside < own - 0.1, f"{100 * beside:.1f} % of neighbours, {100 * own:.1f} % of tokens themselves"


def _steps_are_easy(study: Study) -> tuple[bool, str]:
    rates = study.steps().rate.sel(probe="naive cosine").values
    return bool(rates.min() > 0.9), listed(rates)


def _training_is_higher(study: Study) -> tuple[bool, str]:
    result = study.identifiability().sel(probe="linear l2")
    gap = (result.train_rate - result.rate).values
    return bool((gap > -WOBBLE).all()), f"training less test {listed(gap)}"


def _falling(part: str) -> Shape:
    return Shape("the rate falls with depth", lambda study: falls(_rates(study, "linear cosine", part), WOBBLE))


def _rate_figure(number: str, part: str, claims: tuple) -> Recipe:
    title = f"Tokens that are identified, {part}"
    draw = lambda study: whole(figures.draw_token_identifiability(study.identifiability(part)))  # noqa: E731
    return Recipe(number, title, (part,), draw, _caption(part), claims)


def _transfer_figure(number: str, probe: str, claims: tuple = ()) -> Recipe:
    draw = lambda study: whole(figures.draw_token_transfer(study.transfer(), probe))  # noqa: E731
    title = f"Maps trained on one layer, tested on all: {probe}"
    return Recipe(number, title, ("MRPC",), draw, _caption("MRPC"), claims, needs_perceptrons=probe in PERCEPTRONS)


def _finetuned_figure(number: str, task: str) -> Recipe:
    def draw(study: Study):  # noqa: ANN202
        return whole(figures.draw_token_identifiability(study.finetuned_steps(task), study.plain_steps(task)))

    def caption(study: Study) -> str:
        trained = "all training examples" if study.scale.trained is None else f"{study.scale.trained} training examples"
        tested = study.scale.sentence(task, "identified")
        return f"{study.model.name} fine-tuned for {task} on {trained}, and as it is, dashed; {tested}."

    def l2_falls_more(study: Study) -> tuple[bool, str]:
        lost = [
            float((study.plain_steps(task).rate - study.finetuned_steps(task).rate).sel(probe=probe).isel(layer=-1))
            for probe in ("naive l2", "naive cosine")
        ]
        return lost[0] > lost[1], f"in the last layer L2 loses {100 * lost[0]:.1f} points, cosine {100 * lost[1]:.1f}"

    claims = (Shape("fine-tuning costs L2 more than cosine in the last layer", l2_falls_more),)
    return Recipe(number, f"A single layer's step, fine-tuned for {task}", (task, f"{task} train"), draw, caption, claims)


def _neighbour_figure(number: str, probe: str) -> Recipe:
    draw = lambda study: whole(figures.draw_token_neighbours(study.neighbours(), probe))  # noqa: E731
    claims = (Shape("the farther the neighbour, the less is found", _farther_is_less(probe)),)
    if probe == "linear cosine":
        claims += (Shape("neighbours are found far less than the token itself", _far_below_own),)
    title = f"Neighbours that are identified: {probe}"
    return Recipe(number, title, ("MRPC",), draw, _caption("MRPC"), claims, needs_perceptrons=probe in PERCEPTRONS)


IDENTIFIABILITY_RECIPES = (
    _rate_figure("2a", "MRPC", (
        Quoted("linear maps with cosine find 93% in the last layer", 0.93, 0.01,
               lambda study: float(_rates(study, LINEAR[0])[-1])),
        Shape("without a map nearly all are found up to layer 4",
              lambda study: (bool(_rates(study, "naive cosine")[:4].min() > 0.9), listed(_rates(study, "naive cosine")[:4]))),
        _falling("MRPC"),
        Shape("a learned map finds more than none", _above("linear cosine", "naive cosine")),
        Shape("cosine finds more than L2", _above("linear cosine", "linear l2")),
    )),
    _transfer_figure("2b", TRANSFER["2b"], (
        Quoted("a map trained on the last layer finds 94% there", 0.94, 0.01,
               lambda study: float(study.transfer().rate.sel(probe=LINEAR[0], trained=study.layers, layer=study.layers))),
        Shape("a map of the first layer finds less than 70% in the last two", _first_is_lost),
        Shape("a map of the last layer serves earlier layers better than its own", _late_serves_early),
    )),
    Recipe("7", "Training and test", ("MRPC",),
           lambda study: whole(figures.draw_train_and_test(study.identifiability())), _caption("MRPC"),
           (Shape("maps find no less among what they were trained on", _training_is_higher),)),
    *(_transfer_figure(number, probe) for number, probe in TRANSFER.items() if number != "2b"),
    Recipe("11", "A single layer's step", ("MRPC",),
           lambda study: whole(figures.draw_token_identifiability(study.steps())), _caption("MRPC"),
           (Shape("one layer changes little: without a map nearly all are found", _steps_are_easy),)),
    _finetuned_figure("12", "MRPC"),
    _finetuned_figure("13", "CoLA"),
    *(_neighbour_figure(number, probe) for number, probe in NEIGHBOURS.items()),
    _rate_figure("38", "CoLA", (_falling("CoLA"),)),
    _rate_figure("39", "MNLI", (_falling("MNLI"),)),
)  # fmt: skip
