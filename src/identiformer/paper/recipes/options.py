"""Choices that the paper leaves open: the norm of a Jacobian, the input before or after LayerNorm, the bias of values."""

from itertools import product

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from identiformer import figures
from identiformer.errors import InputError
from identiformer.measures import effective_attention, token_attribution
from identiformer.names import INPUT_SITES, NORMS
from identiformer.paper.computations.study import Study
from identiformer.paper.recipes.declarations import Table, counted, recipe
from identiformer.texts import Example, read_corpus

OPTIONS = tuple(product(NORMS, INPUT_SITES))
"""Norms, and input sites relative to the LayerNorm of the embeddings."""
BIASES = {"values with bias": True, "values without bias": False}


def _attribution(study: Study, norm: str, input_site: str) -> list[xr.Dataset] | None:
    """Short sentences, because two of the norms need full Jacobians; None if a norm is undefined for the model."""

    def compute(text: Example) -> xr.Dataset:
        return token_attribution(study.model, text.text, exact=True, norm=norm, input_site=input_site)

    texts = read_corpus(study.data.files["CoLA"], study.scale.exact)
    try:
        return study.stored_for_each(f"option_{norm}_{input_site}", texts, compute)
    except InputError:  # after a LayerNorm with equal weights the sum over a Jacobian is zero
        return None


def _medians(results: list[xr.Dataset]) -> xr.DataArray:
    shares = np.concatenate([one.self_contribution.values for one in results], -1)
    return xr.DataArray(np.median(shares, -1), {"layer": results[0]["layer"].values})


def _not_own_main(results: list[xr.Dataset]) -> np.ndarray:
    return np.concatenate([one.main_contributor.values != one["target"].values for one in results], -1).mean(-1)


def _attribution_table(study: Study) -> Table:
    layers = study.selected_layers
    rows = []
    for norm, input_site in OPTIONS:
        results = _attribution(study, norm, input_site)
        numbers = [] if results is None else [_medians(results).values, _not_own_main(results)]
        cells = [f"{100 * float(values[layer - 1]):.1f} %" for values in numbers for layer in layers]
        rows.append((norm, f"{input_site} LayerNorm", *(cells or ["undefined"] * 2 * len(layers))))
    header = ("norm", "input", *(f"{name}, layer {layer}" for name in ("median", "not own main") for layer in layers))
    return Table("self-contribution, and tokens that are not their own main contributor", header, rows)


@recipe(
    "O1",
    "Norm of the Jacobian, and input before or after LayerNorm",
    data="CoLA",
    caption=lambda study, _: (
        f"{study.model_name}; the first {counted(study.scale.exact, 'sentence')} of CoLA, exact Jacobians. The other figures use "
        "the Frobenius norm and the input before LayerNorm. For bert-base-uncased on MRPC the paper gives medians of 30.6, 14.4 "
        "and 10.7 % in layers 1, 6 and 12."
    ),
    table=_attribution_table,
)
def draw_attribution_options(study: Study) -> Axes:
    results = {f"{norm}, {input_site} LayerNorm": _attribution(study, norm, input_site) for norm, input_site in OPTIONS}
    curves = {name: _medians(options) for name, options in results.items() if options is not None}
    return figures.draw_over_layers(curves, "median self-contribution")


def _mean_over_texts(study: Study, bias: bool, name: str) -> xr.DataArray:
    def compute(text: Example) -> xr.Dataset:
        trace = study.model.trace(text.text, text.pair, truncate=True, form="weights")
        return effective_attention(trace, value_bias=bias, matrices=True, spectrum=False)[["correlation", "null_mass"]]

    results = study.stored_for_each(f"option_bias_{bias}", study.segments[: 4 * study.scale.compared], compute)
    return xr.concat([one[name] for one in results], "text").mean("text")


def _bias_table(study: Study) -> Table:
    rows = [
        (label, *(f"{float(_mean_over_texts(study, bias, name).mean()):.4f}" for name in ("correlation", "null_mass")))
        for label, bias in BIASES.items()
    ]
    return Table("means over layers and heads", ("option", "correlation of A with A⊥", "null mass"), rows)


@recipe(
    "O2",
    "Values with and without their bias",
    data="wiki",
    caption=lambda study, _: (
        f"{study.model_name}; {4 * study.scale.compared} pairs of Wikipedia spans. The other figures keep the bias."
    ),
    table=_bias_table,
)
def draw_bias_options(study: Study) -> Axes:
    curves = {label: _mean_over_texts(study, bias, "correlation") for label, bias in BIASES.items()}
    return figures.draw_over_layers(curves, "correlation of A with A⊥", percent=False)
