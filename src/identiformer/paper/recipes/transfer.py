"""Maps trained on one layer and tested on all: Figures 2b, 8, 9 and 10."""

import numpy as np

from identiformer import figures
from identiformer.paper.claims import Claim, Quoted, Shape, listed
from identiformer.paper.computations.study import LINEAR, PERCEPTRONS, Study
from identiformer.paper.recipes.identifiability import WOBBLE, identified_caption
from identiformer.paper.recipes.recipe import Recipe, whole

PROBES = {"2b": "linear cosine", "8": "linear l2", "9": "mlp l2", "10": "mlp cosine"}
ALMOST_ALWAYS = 0.75
"""Of the steps of a curve that is said to rise almost monotonically."""


def _trained_on(study: Study, layer: int) -> np.ndarray:
    return study.transfer().rate.sel(probe=LINEAR[0], trained=layer).values


def _transfers_back(probe: str) -> Shape:
    """Whether maps of the last layer serve the first better than maps of the first serve the last."""

    def holds(study: Study) -> tuple[bool, str]:
        rates = study.transfer().rate.sel(probe=probe)
        back = float(rates.sel(trained=study.layers, layer=1))
        forth = float(rates.sel(trained=1, layer=study.layers))
        return back > forth, f"last to first {100 * back:.1f} %, first to last {100 * forth:.1f} %"

    return Shape("late layers transfer to early ones better than early to late", holds)


def _linear_transfers_better(loss: str) -> Shape:
    def holds(study: Study) -> tuple[bool, str]:
        rates = study.transfer().rate
        elsewhere = rates.where(rates["trained"] != rates["layer"]).mean(("trained", "layer"))
        linear, mlp = (float(elsewhere.sel(probe=f"{kind} {loss}")) for kind in ("linear", "mlp"))
        return linear > mlp, f"in other layers than its own: linear {100 * linear:.1f} %, MLP {100 * mlp:.1f} %"

    return Shape("linear maps transfer better than MLPs", holds)


def _rises_towards_early(study: Study) -> tuple[bool, str]:
    rates = _trained_on(study, study.layers)
    kept = np.diff(rates[::-1]) >= -WOBBLE
    return bool(kept.mean() >= ALMOST_ALWAYS), f"{listed(rates)}; in {kept.sum()} of {kept.size} steps back no less is found"


def _both_patterns(study: Study) -> tuple[bool, str]:
    middle = max(1, study.layers // 2)
    rates = _trained_on(study, middle)
    return bool(rates[:middle].min() >= rates[middle - 1] - WOBBLE and rates[-1] < rates[middle - 1]), listed(rates)


def _sudden_drop(study: Study) -> tuple[bool | None, str]:
    if study.layers < 3:
        return None, f"{study.layers} layers"
    rates = _trained_on(study, study.layers - 1)
    return bool(np.diff(rates).argmin() == study.layers - 2), listed(rates)


def _figure(number: str, probe: str, *claims: Claim) -> Recipe:
    draw = lambda study: whole(figures.draw_token_transfer(study.transfer(), probe))  # noqa: E731
    title, perceptron = f"Maps trained on one layer, tested on all: {probe}", probe in PERCEPTRONS
    claims += (_transfers_back(probe), *([_linear_transfers_better(probe.split()[1])] if perceptron else []))
    return Recipe(number, title, ("MRPC",), draw, identified_caption("MRPC"), claims, needs_perceptrons=perceptron)


TRANSFER_RECIPES = (
    _figure("2b", PROBES["2b"],
            Quoted("a map trained on the last layer finds 94% there", 0.94, 0.01,
                   lambda study: float(_trained_on(study, study.layers)[-1])),
            *(Quoted(f"a map of the first layer finds less than 70% in the last{name}", 0.70, 0.0, sense="below",
                     ours=lambda study, place=place: float(_trained_on(study, 1)[place])
                     if study.layers >= -place else f"{study.layers} layers")
              for place, name in ((-2, " but one"), (-1, ""))),
            Shape("the earlier the layer, the more a map of the last finds there, almost monotonically", _rises_towards_early),
            Shape("a map of the middle finds as much before its layer, and less behind", _both_patterns),
            Shape("a map of the last layer but one drops most from there to the last", _sudden_drop)),
    *(_figure(number, probe) for number, probe in PROBES.items() if number != "2b"),
)  # fmt: skip
