"""Recovery of a token's neighbors from its hidden vector: Figures 14 to 17."""

from functools import partial

import numpy as np
from matplotlib.axes import Axes

from identiformer import figures
from identiformer.paper.computations.study import Study
from identiformer.paper.recipes.declarations import Outcome, claim, decreases, mlp_probes, percentages, recipe
from identiformer.paper.recipes.identifiability import SLACK, probe_caption, recovery_rates

PROBES = {"14": "linear cosine", "15": "mlp cosine", "16": "mlp l2", "17": "linear l2"}
FAR_BELOW = 0.1


@recipe(
    PROBES, "Recovery of neighbors: {}", data="MRPC", caption=partial(probe_caption, purpose="neighbors"), requires=(mlp_probes,)
)
def draw_neighbors(study: Study, probe: str) -> Axes:
    return figures.draw_token_neighbors(study.neighbors(), probe)


@claim(PROBES, "the recovery rate falls with the neighbor's distance")
def falls_with_distance(study: Study, probe: str) -> Outcome:
    rates = study.neighbors().rate.sel(probe=probe).mean("layer")
    return decreases([float(rates.sel(offset=[-distance, distance]).mean()) for distance in (1, 2, 3)])


@claim(PROBES, "the recovery rate of neighbors falls with depth")
def falls_with_depth(study: Study, probe: str) -> Outcome:
    rates = study.neighbors().rate.sel(probe=probe).mean("offset").values
    return bool(rates[-1] < rates[0]), percentages(rates)


@claim(PROBES, "previous and next neighbors have different recovery rates")
def sides_differ(study: Study, probe: str) -> Outcome:
    """By layer: a mean over layers would hide that one side leads early and the other late."""
    rates = study.neighbors().rate.sel(probe=probe)
    difference = (rates.sel(offset=1) - rates.sel(offset=-1)).values
    points = " ".join(f"{100 * each:+.1f}" for each in difference)
    return bool(np.abs(difference).mean() > SLACK), f"next minus previous, by layer: {points} points"


# Not of MLP probes, which are trained on fewer examples here than for the token itself.
@claim({"14": "linear cosine", "17": "linear l2"}, "neighbors are recovered far less than the token itself")
def token_is_recovered_more(study: Study, probe: str) -> Outcome:
    neighbors = float(study.neighbors().rate.sel(probe=probe, offset=[-1, 1]).mean())
    token = float(recovery_rates(study, probe).mean())
    return neighbors < token - FAR_BELOW, f"{100 * neighbors:.1f} % of neighbors, {100 * token:.1f} % of tokens themselves"
