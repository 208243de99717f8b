"""Pascual et al. 2021: what a head's output depends on at the input, against where the head attends."""

import numpy as np
import torch
import xarray as xr
from matplotlib.axes import Axes

from identiformer import figures
from identiformer.equations.attention.patterns import PATTERNS, pattern_shares
from identiformer.figures.style import axes_or_new
from identiformer.measures import token_attribution
from identiformer.measures.attention.patterns import DOMINANT, separators
from identiformer.paper.computations.study import Study
from identiformer.paper.recipes.declarations import Outcome, Paper
from identiformer.results import make_result
from identiformer.texts import Example

PASCUAL = Paper(
    "pascual2021",
    "Telling BERT's Full Story, reproduced",
    "Pascual et al., Telling BERT's Full Story: from Local Attention to Global Aggregation, EACL 2021",
    "bert-base-uncased",
)
DIRECTIONS = 4
COMPONENTS = ("attention", "attribution")
KEPT = ("peak", "previous", "next", "self", "separator")
NEAR = 2
"""Tokens to either side that count as near."""


def _patterns(study: Study) -> xr.Dataset:
    """Means over texts."""

    def compute(text: Example) -> xr.Dataset:
        result = token_attribution(study.model, text.text, text.pair, directions=DIRECTIONS, heads=True, truncate=True)
        trace = study.model.trace(text.text, text.pair, truncate=True, form="weights")
        stack = trace.stack()
        tokens, length = stack.queries, len(stack.queries)
        marks, ids = torch.tensor(separators(tokens)), torch.tensor(tokens.ids)
        distance = np.abs(np.subtract.outer(np.arange(length), np.arange(length)))
        near, patterns = [], []
        for layer in stack.layers:
            record = layer.recorded()
            attributed = result.head_contribution.sel(layer=layer.number).transpose("head", "target", "source").values
            for rows in (record.weights.double(), torch.as_tensor(np.array(attributed)).double()):
                patterns.append(torch.stack(pattern_shares(rows, record.visible, separators=marks, ids=ids), -1).numpy())
                near.append((rows.numpy() * (distance <= NEAR)).sum(-1).mean(-1))
        shape = (len(stack.layers), len(COMPONENTS))
        arrays = {
            "pattern_share": np.reshape(patterns, (*shape, *patterns[0].shape)).swapaxes(0, 1),
            "near": np.reshape(near, (*shape, -1)).swapaxes(0, 1),
            "agreement": result.raw_agreement.mean("target").transpose("layer", "head").values,
        }
        coordinates = {
            "component": list(COMPONENTS), "layer": [layer.number for layer in stack.layers], "pattern": list(PATTERNS),
        }  # fmt: skip
        return make_result("head_patterns", arrays, coordinates, trace.source, {"directions": DIRECTIONS})

    return study.mean_over_pairs("local", compute)


def _caption(study: Study, *_: str) -> str:
    return f"{study.model_name}; the first {study.scale.compared} pairs of MRPC; {DIRECTIONS} random directions per token."


@PASCUAL.recipe("1", "Agreement of attention with the attribution of head outputs", data="MRPC", caption=_caption)
def draw_agreement(study: Study) -> Axes:
    return figures.draw_over_layers({"raw attention": _patterns(study).agreement}, "correlation with attribution", percent=False)


@PASCUAL.claim("1", "attention and attribution of a head mismatch, the more the deeper the layer")
def mismatch_grows(study: Study) -> Outcome:
    by_layer = _patterns(study).agreement.mean("head").values
    evidence = f"correlation by layer {' '.join(f'{value:.2f}' for value in by_layer)}"
    if len(by_layer) < 3:
        return None, evidence
    return bool(by_layer[-1] < by_layer[0] - 0.1 and by_layer[1:].max() < by_layer[0]), evidence


@PASCUAL.claim("1", "attention is informative locally: in the first layer it agrees with attribution")
def first_layer_agrees(study: Study) -> Outcome:
    first = float(_patterns(study).agreement.isel(layer=0).mean())
    return first > 0.7, f"mean correlation {first:.2f} in layer 1"


@PASCUAL.recipe("2", f"weight on the token itself and {NEAR} neighbors to either side", data="MRPC", caption=_caption)
def draw_near(study: Study) -> Axes:
    near = _patterns(study).near
    return figures.draw_over_layers({name: near.sel(component=name) for name in COMPONENTS}, "share on near tokens")


@PASCUAL.claim("2", "attribution aggregates globally: near tokens lose share with depth")
def aggregates_globally(study: Study) -> Outcome:
    near = _patterns(study).near.sel(component="attribution").mean("head").values
    evidence = f"near share of attribution by layer {' '.join(f'{100 * value:.0f}' for value in near)} %"
    return None if len(near) < 3 else bool(near[-1] < near[0] - 0.05), evidence


@PASCUAL.claim("2", "attributions of the heads of a layer differ less from one another than their attentions")
def heads_differ_less(study: Study) -> Outcome:
    """The standard deviation over heads of the share on near tokens, mean over all but the first layer."""
    deviation = _patterns(study).near.isel(layer=slice(1, None)).std("head").mean("layer")
    attention, attribution = (float(deviation.sel(component=name)) for name in COMPONENTS)
    evidence = f"standard deviation over heads {100 * attention:.1f} points in attention, {100 * attribution:.1f} in attribution"
    return attribution < attention, evidence


def _dominant(study: Study, component: str) -> xr.DataArray:
    """The dominant pattern of each head, empty where there is none."""
    share = _patterns(study).pattern_share.sel(component=component, pattern=list(KEPT)).fillna(0.0)
    names = np.array([*KEPT, ""])
    best = np.where(share.max("pattern") >= DOMINANT, share.argmax("pattern"), len(KEPT))
    return xr.DataArray(names[best], dims=("layer", "head"))


@PASCUAL.recipe("3", "heads whose attribution keeps the pattern of their attention", data="MRPC", caption=_caption)
def draw_kept(study: Study) -> Axes:
    ax = axes_or_new(None, 6, 3.2)
    local, whole = (_dominant(study, component).values for component in COMPONENTS)
    layers = np.arange(1, len(local) + 1)
    ax.bar(layers, (local != "").sum(1), 0.7, color="#D55E00", label="attention has a pattern")
    ax.bar(layers, ((local != "") & (local == whole)).sum(1), 0.7, color="#0072B2", label="attribution has the same")
    ax.set(xlabel="layer", ylabel="heads")
    ax.legend(frameon=False)
    return ax


@PASCUAL.claim("3", "some patterns persist in all layers despite the mixing")
def patterns_persist(study: Study) -> Outcome:
    local, whole = (_dominant(study, component).values for component in COMPONENTS)
    kept = ((local != "") & (local == whole)).sum(1)
    evidence = (
        f"heads that keep their pattern, by layer: {' '.join(map(str, kept))}, of {' '.join(map(str, (local != '').sum(1)))}"
    )
    return bool((kept > 0).all()), evidence
