"""Token identifiability: Figures 2, 7 to 17, 38 and 39."""

import numpy as np

from identiformer import figures
from identiformer.paper.claims import Quoted, Shape, falls, listed
from identiformer.paper.recipe import Recipe, whole
from identiformer.paper.study import LEARNING_RATE, LINEAR, PERCEPTRONS, Study

WOBBLE = 0.01
"""By which a curve that falls may rise from a layer to the next: about a standard deviation over resplits."""
TRANSFER = {"2b": "linear cosine", "8": "linear l2", "9": "mlp l2", "10": "mlp cosine"}
LEARNT = {0.5: 0.74, 0.8: 0.80, 0.9: 0.81, 1.0: 0.82}
"""B.2: the share of the training data, and what was found."""
BERT_PIECES = 30522
NEIGHBOURS = {"14": "linear cosine", "15": "mlp cosine", "16": "mlp l2", "17": "linear l2"}


def _caption(part: str, purpose: str | None = None):  # noqa: ANN202
    """purpose: what MLPs are trained for, if not for the part's own tokens."""

    def caption(study: Study) -> str:
        scale = study.scale
        maps = f"linear maps in closed form, {scale.resplits_for(purpose or part)} resplits"
        few = scale.perceptron_examples.get(purpose or part)
        own = "the same examples" if few is None else f"the first {few} examples alone"
        resplits = "one resplit" if scale.perceptrons == 1 else f"{scale.perceptrons} resplits"
        trained = f"; MLPs by Adam with step {LEARNING_RATE:g}, {own}, {resplits}" if scale.perceptrons else "; no MLPs"
        return f"{study.model_name}; {scale.sentence(part, 'identified')}; {maps}{trained} (the paper: Adam, ten resplits)."

    return caption


def _counted(part: str, examples: int, tokens: int | None, first: int | None = None) -> Shape:
    """That the data are the paper's: examples always, tokens where the model cuts words into the pieces that BERT does."""

    def holds(study: Study) -> tuple[bool | None, str]:
        if study.scale.identified[part] != first:
            return None, f"{study.scale.sentence(part, 'identified')}"
        seen = study.identifiability(part).attrs
        as_bert = study.model.tokenizer.vocab_size == BERT_PIECES
        right = seen["examples"] == examples and (tokens is None or not as_bert or seen["tokens"] == tokens)
        return bool(right), f"{seen['examples']:,} examples, {seen['tokens']:,} tokens"

    pieces = "" if tokens is None else f" and {tokens:,} tokens of BERT"
    return Shape(f"{part} has {examples:,} examples{pieces}", holds)


def _learnt_quoted(share: float, value: float) -> Quoted:
    def ours(study: Study) -> float | str:
        if not study.scale.perceptrons:
            return "no MLPs"
        return float(study.learning_curve().rate.sel(probe="mlp l2", share=share).item())

    return Quoted(f"an MLP of the last layer but one, by L2, with {share:.0%} of the training data: {value}", value, 0.02, ours)


def _more_data_find_more(study: Study) -> tuple[bool | None, str]:
    if not study.scale.perceptrons:
        return None, "no MLPs"
    rates = study.learning_curve().rate.sel(probe="mlp l2").squeeze("layer").values
    return bool(rates[-1] > rates[0]), listed(rates)


def _transfers_back(probe: str):  # noqa: ANN202
    """Whether maps of the last layer serve the first better than maps of the first serve the last."""

    def holds(study: Study) -> tuple[bool, str]:
        rates = study.transfer().rate.sel(probe=probe)
        back = float(rates.sel(trained=study.layers, layer=1))
        forth = float(rates.sel(trained=1, layer=study.layers))
        return back > forth, f"last to first {100 * back:.1f} %, first to last {100 * forth:.1f} %"

    return holds


def _linear_transfers_better(loss: str):  # noqa: ANN202
    def holds(study: Study) -> tuple[bool, str]:
        rates = study.transfer().rate
        elsewhere = rates.where(rates["trained"] != rates["layer"]).mean(("trained", "layer"))
        linear, mlp = (float(elsewhere.sel(probe=f"{kind} {loss}")) for kind in ("linear", "mlp"))
        return linear > mlp, f"in other layers than its own: linear {100 * linear:.1f} %, MLP {100 * mlp:.1f} %"

    return holds


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


def _deeper_is_less(probe: str):  # noqa: ANN202
    def holds(study: Study) -> tuple[bool, str]:
        rates = study.neighbours().rate.sel(probe=probe).mean("offset").values
        return bool(rates[-1] < rates[0]), listed(rates)

    return holds


def _sides_differ(probe: str):  # noqa: ANN202
    def holds(study: Study) -> tuple[bool, str]:
        """Layer by layer: a mean over layers would hide that one side leads early and the other late."""
        rates = study.neighbours().rate.sel(probe=probe)
        ahead = (rates.sel(offset=1) - rates.sel(offset=-1)).values
        told = " ".join(f"{100 * each:+.1f}" for each in ahead)
        return bool(np.abs(ahead).mean() > WOBBLE), f"next less previous, by layer: {told} points"

    return holds


def _far_below_own(study: Study) -> tuple[bool, str]:
    beside = float(study.neighbours().rate.sel(probe="linear cosine", offset=[-1, 1]).mean())
    own = float(_rates(study, "linear cosine").mean())
    return beside < own - 0.1, f"{100 * beside:.1f} % of neighbours, {100 * own:.1f} % of tokens themselves"


def _steps_are_easy(study: Study) -> tuple[bool, str]:
    rates = study.steps().rate.sel(probe="naive cosine").values
    return bool(rates.min() > 0.9), listed(rates)


def _steps_by_cosine(study: Study) -> tuple[bool, str]:
    cosine, l2 = (float(study.steps().rate.sel(probe=f"naive {loss}").mean()) for loss in ("cosine", "l2"))
    return cosine >= l2, f"without a map {100 * cosine:.1f} % and {100 * l2:.1f} % on average"


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
    claims += (Shape("late layers transfer to early ones better than early to late", _transfers_back(probe)),)
    if probe in PERCEPTRONS:
        claims += (Shape("linear maps transfer better than MLPs", _linear_transfers_better(probe.split()[1])),)
    return Recipe(number, title, ("MRPC",), draw, _caption("MRPC"), claims, needs_perceptrons=probe in PERCEPTRONS)


def _finetuned_figure(number: str, task: str) -> Recipe:
    def draw(study: Study):  # noqa: ANN202
        return whole(figures.draw_token_identifiability(study.finetuned_steps(task), study.plain_steps(task)))

    def caption(study: Study) -> str:
        trained = (
            "all training examples"
            if study.scale.trained is None
            else f"{study.scale.trained:,} training examples (the paper: all)"
        )
        tested = study.scale.sentence(task, "identified")
        return f"{study.model_name} fine-tuned for {task} on {trained}, and as it is, dashed; {tested}."

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
    claims = (
        Shape("the farther the neighbour, the less is found", _farther_is_less(probe)),
        Shape("the deeper the layer, the less is found", _deeper_is_less(probe)),
        Shape("previous and next neighbours are not found alike", _sides_differ(probe)),
    )
    if probe == "linear cosine":
        claims += (Shape("neighbours are found far less than the token itself", _far_below_own),)
    title = f"Neighbours that are identified: {probe}"
    caption = _caption("MRPC", "neighbours")
    return Recipe(number, title, ("MRPC",), draw, caption, claims, needs_perceptrons=probe in PERCEPTRONS)


IDENTIFIABILITY_RECIPES = (
    _rate_figure("2a", "MRPC", (
        Quoted("linear maps with cosine find 93% in the last layer", 0.93, 0.01,
               lambda study: float(_rates(study, LINEAR[0])[-1])),
        Shape("without a map nearly all are found up to layer 4",
              lambda study: (bool(_rates(study, "naive cosine")[:4].min() > 0.9), listed(_rates(study, "naive cosine")[:4]))),
        _falling("MRPC"),
        Shape("a learned map finds more than none", _above("linear cosine", "naive cosine")),
        Shape("cosine finds more than L2", _above("linear cosine", "linear l2")),
        _counted("MRPC", 408, 21_723),
    )),
    _transfer_figure("2b", TRANSFER["2b"], (
        Quoted("a map trained on the last layer finds 94% there", 0.94, 0.01,
               lambda study: float(study.transfer().rate.sel(probe=LINEAR[0], trained=study.layers, layer=study.layers))),
        Shape("a map of the first layer finds less than 70% in the last two", _first_is_lost),
        Shape("a map of the last layer serves earlier layers better than its own", _late_serves_early),
    )),
    Recipe("7", "Training and test", ("MRPC",),
           lambda study: whole(figures.draw_train_and_test(study.identifiability())), _caption("MRPC"),
           (Shape("maps find no less among what they were trained on", _training_is_higher),
            *(_learnt_quoted(share, value) for share, value in LEARNT.items()),
            Shape("more training data find more", _more_data_find_more))),
    *(_transfer_figure(number, probe) for number, probe in TRANSFER.items() if number != "2b"),
    Recipe("11", "A single layer's step", ("MRPC",),
           lambda study: whole(figures.draw_token_identifiability(study.steps())), _caption("MRPC", "steps"),
           (Shape("one layer changes little: without a map nearly all are found", _steps_are_easy),
            Shape("cosine finds more than L2", _steps_by_cosine))),
    _finetuned_figure("12", "MRPC"),
    _finetuned_figure("13", "CoLA"),
    *(_neighbour_figure(number, probe) for number, probe in NEIGHBOURS.items()),
    _rate_figure("38", "CoLA", (_falling("CoLA"), _counted("CoLA", 1043, None))),
    _rate_figure("39", "MNLI", (_falling("MNLI"), _counted("MNLI", 500, 19_839, first=500))),
)  # fmt: skip
