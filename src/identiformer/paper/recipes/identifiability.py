"""How many tokens are identified, layer by layer: Figures 2a, 7, 38 and 39."""

from collections.abc import Callable

import numpy as np

from identiformer import figures
from identiformer.paper.claims import Claim, Quoted, Shape, falls, listed
from identiformer.paper.computations.study import LEARNING_RATE, LINEAR, Study
from identiformer.paper.recipes.recipe import Recipe, whole

WOBBLE = 0.01
"""By which a curve that falls may rise from a layer to the next: about a standard deviation over resplits."""
ALIKE = 0.05
"""Rates that differ by less are said to be alike."""
NEARLY_ALL = 0.9
LEARNT = {0.5: 0.74, 0.8: 0.80, 0.9: 0.81, 1.0: 0.82}
"""B.2: the share of the training data, and what was found."""
GUESSED = {"MRPC": 0.017, "CoLA": 0.09, "MNLI": 0.026}
"""D.1: what guessing finds, 1 over the mean length."""
BERT_PIECES = 30522


def identified_caption(part: str, purpose: str | None = None) -> Callable[[Study], str]:
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


def mean_rate(study: Study, probe: str) -> float:
    """Of the tokens of MRPC, over all layers."""
    return float(_rates(study, probe).mean())


def _rates(study: Study, probe: str, part: str = "MRPC") -> np.ndarray:
    return study.identifiability(part).rate.sel(probe=probe).values


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


def _guessed(part: str) -> Quoted:
    def ours(study: Study) -> float:
        seen = study.identifiability(part).attrs
        return seen["examples"] / seen["tokens"]

    return Quoted(f"guessing finds {GUESSED[part]:.1%}", GUESSED[part], 0.001, ours)


def _near_the_input(part: str) -> Shape:
    """As many of its layers as 4 are of 12, by both distances."""

    def holds(study: Study) -> tuple[bool, str]:
        early = max(1, study.layers // 3)
        found = {loss: _rates(study, f"naive {loss}", part)[:early] for loss in ("cosine", "l2")}
        told = "; ".join(f"{loss} {listed(rates)}" for loss, rates in found.items())
        return all(bool(rates.min() > NEARLY_ALL) for rates in found.values()), told

    return Shape("without a map nearly all are found in the first third of the layers, by cosine and by L2", holds)


def _then_falls(part: str) -> Shape:
    def holds(study: Study) -> tuple[bool, str]:
        return falls(_rates(study, "naive cosine", part)[max(1, study.layers // 3) - 1 :], WOBBLE)

    return Shape("from there on the rate without a map falls", holds)


def _falling(part: str) -> Shape:
    return Shape("the rate falls with depth", lambda study: falls(_rates(study, LINEAR[0], part), WOBBLE))


def _above(says: str, first: str, second: str, part: str) -> Shape:
    def holds(study: Study) -> tuple[bool, str]:
        one, other = (_rates(study, probe, part).mean() for probe in (first, second))
        return bool(one >= other), f"on average {100 * one:.1f} % and {100 * other:.1f} %"

    return Shape(says, holds)


def _rate_figure(number: str, part: str, counted: Shape, *more: Claim) -> Recipe:
    """Of one part of the data; D.1 says of the others what §4 says of MRPC."""
    claims = (
        *more,
        _near_the_input(part),
        _then_falls(part),
        _falling(part),
        _above("a learned map finds more than none", "linear cosine", "naive cosine", part),
        _above("cosine finds more than L2", "linear cosine", "linear l2", part),
        counted,
        _guessed(part),
    )
    draw = lambda study: whole(figures.draw_token_identifiability(study.identifiability(part)))  # noqa: E731
    return Recipe(number, f"Tokens that are identified, {part}", (part,), draw, identified_caption(part), claims)


def _training_is_higher(study: Study) -> tuple[bool, str]:
    gap = _overfit(study, "linear l2")
    return bool((gap > -WOBBLE).all()), f"training less test {listed(gap)}"


def _overfit(study: Study, probe: str) -> np.ndarray:
    result = study.identifiability().sel(probe=probe)
    return (result.train_rate - result.rate).values


def _overfit_alike(study: Study) -> tuple[bool | None, str]:
    if not study.scale.perceptrons:
        return None, "no MLPs"
    linear, mlp = (_overfit(study, f"{kind} l2").mean() for kind in ("linear", "mlp"))
    told = f"training less test, on average: linear {100 * linear:.1f}, MLP {100 * mlp:.1f} points"
    return bool(abs(linear - mlp) < ALIKE), told


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


IDENTIFIABILITY_RECIPES = (
    _rate_figure("2a", "MRPC", _counted("MRPC", 408, 21_723),
                 Quoted("linear maps with cosine find 93% in the last layer", 0.93, 0.01,
                        lambda study: float(_rates(study, LINEAR[0])[-1]))),
    Recipe("7", "Training and test", ("MRPC",),
           lambda study: whole(figures.draw_train_and_test(study.identifiability())), identified_caption("MRPC"),
           (Shape("maps find no less among what they were trained on", _training_is_higher),
            Shape("linear maps and MLPs overfit alike, to 5 points", _overfit_alike),
            *(_learnt_quoted(share, value) for share, value in LEARNT.items()),
            Shape("more training data find more", _more_data_find_more))),
    _rate_figure("38", "CoLA", _counted("CoLA", 1043, None)),
    _rate_figure("39", "MNLI", _counted("MNLI", 500, 19_839, first=500)),
)  # fmt: skip
