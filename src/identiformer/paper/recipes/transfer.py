"""Probes tested on other layers than their own, Figures 2b and 8 to 10, and on neighboring tokens, Figures 14 to 17."""

from functools import partial

import numpy as np
from matplotlib.axes import Axes

from identiformer import figures
from identiformer.paper.computations.study import LINEAR, Study
from identiformer.paper.recipes.declarations import Comparison, Outcome, claim, decreases, mlp_probes, percentages, recipe
from identiformer.paper.recipes.identifiability import SLACK, probe_caption, recovery_rates

PROBES = {"2b": "linear cosine", "8": "linear l2", "9": "mlp l2", "10": "mlp cosine"}
ALMOST_ALWAYS = 0.75
"""The share of steps in which an almost monotonic curve does not fall."""


@recipe(PROBES, "Probes trained on one layer, tested on all: {}", data="MRPC", caption=probe_caption, requires=(mlp_probes,))
def draw_transfer(study: Study, probe: str) -> Axes:
    return figures.draw_token_transfer(study.transfer(), probe)


def _trained_on(study: Study, layer: int) -> np.ndarray:
    return study.transfer().rate.sel(probe=LINEAR[0], trained=layer).values


@claim("2b", "a last-layer probe recovers 94% in its own layer")
def last_layer_probe(study: Study) -> Comparison:
    return Comparison(float(_trained_on(study, study.layers)[-1]), 0.94, tolerance=0.01)


@claim({"2b": [("second-to-last", -2), ("last", -1)]}, "a first-layer probe recovers less than 70% in the {} layer")
def first_layer_probe(study: Study, _: str, index: int) -> Comparison:
    few = study.layers < -index
    return Comparison(f"{study.layers} layers" if few else float(_trained_on(study, 1)[index]), 0.70, sense="below")


@claim("2b", "the earlier the layer, the more a last-layer probe recovers there, almost monotonically")
def rises_toward_early_layers(study: Study) -> Outcome:
    rates = _trained_on(study, study.layers)
    kept = np.diff(rates[::-1]) >= -SLACK
    return bool(kept.mean() >= ALMOST_ALWAYS), f"{percentages(rates)}; no decrease in {kept.sum()} of {kept.size} steps back"


@claim("2b", "a middle-layer probe recovers as much before its layer, and less after it")
def middle_layer_probe(study: Study) -> Outcome:
    middle = study.middle_layer
    rates = _trained_on(study, middle)
    no_less_before = rates[:middle].min() >= rates[middle - 1] - SLACK
    return bool(no_less_before and rates[-1] < rates[middle - 1]), percentages(rates)


@claim("2b", "a second-to-last-layer probe drops most from its layer to the last")
def drops_in_last_layer(study: Study) -> Outcome:
    if study.layers < 3:
        return None, f"{study.layers} layers"
    rates = _trained_on(study, study.layers - 1)
    return bool(np.diff(rates).argmin() == study.layers - 2), percentages(rates)


@claim(PROBES, "probes transfer better from late to early layers than from early to late")
def transfers_back(study: Study, probe: str) -> Outcome:
    rates = study.transfer().rate.sel(probe=probe)
    back = float(rates.sel(trained=study.layers, layer=1))
    forth = float(rates.sel(trained=1, layer=study.layers))
    return back > forth, f"last to first {100 * back:.1f} %, first to last {100 * forth:.1f} %"


@claim({"9": "l2", "10": "cosine"}, "linear probes transfer better than MLP probes")
def linear_transfers_better(study: Study, loss: str) -> Outcome:
    rates = study.transfer().rate
    in_other_layers = rates.where(rates["trained"] != rates["layer"]).mean(("trained", "layer"))
    linear, mlp = (float(in_other_layers.sel(probe=f"{kind} {loss}")) for kind in ("linear", "mlp"))
    return linear > mlp, f"in layers other than the probe's: linear {100 * linear:.1f} %, MLP {100 * mlp:.1f} %"


NEIGHBOR_PROBES = {"14": "linear cosine", "15": "mlp cosine", "16": "mlp l2", "17": "linear l2"}
FAR_BELOW = 0.1


@recipe(
    NEIGHBOR_PROBES,
    "Recovery of neighbors: {}",
    data="MRPC",
    caption=partial(probe_caption, purpose="neighbors"),
    requires=(mlp_probes,),
)
def draw_neighbors(study: Study, probe: str) -> Axes:
    return figures.draw_token_neighbors(study.neighbors(), probe)


@claim(NEIGHBOR_PROBES, "the recovery rate falls with the neighbor's distance")
def falls_with_distance(study: Study, probe: str) -> Outcome:
    rates = study.neighbors().rate.sel(probe=probe).mean("layer")
    return decreases([float(rates.sel(offset=[-distance, distance]).mean()) for distance in (1, 2, 3)])


@claim(NEIGHBOR_PROBES, "the recovery rate of neighbors falls with depth")
def falls_with_depth(study: Study, probe: str) -> Outcome:
    rates = study.neighbors().rate.sel(probe=probe).mean("offset").values
    return bool(rates[-1] < rates[0]), percentages(rates)


@claim(NEIGHBOR_PROBES, "previous and next neighbors have different recovery rates")
def sides_differ(study: Study, probe: str) -> Outcome:
    """By layer: a mean over layers would hide that one side leads early and the other late."""
    rates = study.neighbors().rate.sel(probe=probe)
    difference = (rates.sel(offset=1) - rates.sel(offset=-1)).values
    by_layer = " ".join(f"{100 * points:+.1f}" for points in difference)
    return bool(np.abs(difference).mean() > SLACK), f"next minus previous, by layer: {by_layer} points"


# Not of MLP probes, which are trained on fewer examples here than for the token itself.
@claim({"14": "linear cosine", "17": "linear l2"}, "neighbors are recovered far less than the token itself")
def token_is_recovered_more(study: Study, probe: str) -> Outcome:
    neighbors = float(study.neighbors().rate.sel(probe=probe, offset=[-1, 1]).mean())
    token = float(recovery_rates(study, probe).mean())
    return neighbors < token - FAR_BELOW, f"{100 * neighbors:.1f} % of neighbors, {100 * token:.1f} % of tokens themselves"
