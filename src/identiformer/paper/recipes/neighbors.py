"""How many neighbors of a token are identified: Figures 14 to 17."""

import numpy as np

from identiformer import figures
from identiformer.paper.claims import Shape, falls, listed
from identiformer.paper.computations.study import PERCEPTRONS, Study
from identiformer.paper.recipes.identifiability import WOBBLE, identified_caption, mean_rate
from identiformer.paper.recipes.recipe import Recipe, whole

PROBES = {"14": "linear cosine", "15": "mlp cosine", "16": "mlp l2", "17": "linear l2"}
FAR_BELOW = 0.1


def _farther_is_less(probe: str) -> Shape:
    def holds(study: Study) -> tuple[bool, str]:
        rates = study.neighbors().rate.sel(probe=probe).mean("layer")
        return falls([float(rates.sel(offset=[-k, k]).mean()) for k in (1, 2, 3)])

    return Shape("the farther the neighbor, the less is found", holds)


def _deeper_is_less(probe: str) -> Shape:
    def holds(study: Study) -> tuple[bool, str]:
        rates = study.neighbors().rate.sel(probe=probe).mean("offset").values
        return bool(rates[-1] < rates[0]), listed(rates)

    return Shape("the deeper the layer, the less is found", holds)


def _sides_differ(probe: str) -> Shape:
    """Layer by layer: a mean over layers would hide that one side leads early and the other late."""

    def holds(study: Study) -> tuple[bool, str]:
        rates = study.neighbors().rate.sel(probe=probe)
        ahead = (rates.sel(offset=1) - rates.sel(offset=-1)).values
        told = " ".join(f"{100 * each:+.1f}" for each in ahead)
        return bool(np.abs(ahead).mean() > WOBBLE), f"next less previous, by layer: {told} points"

    return Shape("previous and next neighbors are not found alike", holds)


def _far_below_own(probe: str) -> Shape:
    def holds(study: Study) -> tuple[bool, str]:
        beside, own = float(study.neighbors().rate.sel(probe=probe, offset=[-1, 1]).mean()), mean_rate(study, probe)
        return beside < own - FAR_BELOW, f"{100 * beside:.1f} % of neighbors, {100 * own:.1f} % of tokens themselves"

    return Shape("neighbors are found far less than the token itself", holds)


def _figure(number: str, probe: str) -> Recipe:
    draw = lambda study: whole(figures.draw_token_neighbors(study.neighbors(), probe))  # noqa: E731
    title, perceptron = f"Neighbors that are identified: {probe}", probe in PERCEPTRONS
    claims = (_farther_is_less(probe), _deeper_is_less(probe), _sides_differ(probe))
    if not perceptron:  # MLPs see fewer examples here than where they look for the token itself
        claims += (_far_below_own(probe),)
    caption = identified_caption("MRPC", "neighbors")
    return Recipe(number, title, ("MRPC",), draw, caption, claims, needs_perceptrons=perceptron)


NEIGHBOUR_RECIPES = tuple(_figure(number, probe) for number, probe in PROBES.items())
