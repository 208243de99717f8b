"""What the paper leaves open comes to: the norm of a Jacobian, where the input is taken, the bias of values."""

from itertools import product

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from identiformer import figures
from identiformer.errors import InputError
from identiformer.measures import effective_attention, token_attribution
from identiformer.models.derivatives.jacobian_norms import NORMS
from identiformer.paper.computations.study import Study
from identiformer.paper.recipes.recipe import Recipe, Table, whole
from identiformer.texts import read_corpus

INPUTS = ("before", "after")
"""The LayerNorm of the embeddings."""
BIASES = {"values with their bias": True, "values without": False}


def _attributed(study: Study, norm: str, place: str) -> list[xr.Dataset] | None:
    """Short sentences, since whole Jacobians are needed for two of the norms; None where a norm is undefined for the model."""
    texts = read_corpus(study.data.files["CoLA"], study.scale.exact)
    try:
        return [
            study.kept(
                f"option_{norm}_{place}_{number}",
                lambda text=text: token_attribution(study.model, text.text, exact=True, norm=norm, input_site=place),
            )
            for number, text in enumerate(texts)
        ]
    except InputError:  # behind a LayerNorm with equal weights nothing is left of a sum
        return None


def _medians(results: list[xr.Dataset]) -> xr.DataArray:
    shares = np.concatenate([one.self_contribution.values for one in results], -1)
    return xr.DataArray(np.median(shares, -1), {"layer": results[0]["layer"].values})


def _strangers(results: list[xr.Dataset]) -> np.ndarray:
    return np.concatenate([one.main_contributor.values != one["target"].values for one in results], -1).mean(-1)


def _draw_attribution(study: Study) -> Figure:
    found = {f"{norm}, {place} LayerNorm": _attributed(study, norm, place) for norm, place in product(NORMS, INPUTS)}
    curves = {name: _medians(results) for name, results in found.items() if results is not None}
    return whole(figures.draw_over_layers(curves, "median self-contribution"))


def _attribution_table(study: Study) -> Table:
    layers = study.some_layers
    rows = []
    for norm, place in product(NORMS, INPUTS):
        results = _attributed(study, norm, place)
        numbers = [] if results is None else [_medians(results).values, _strangers(results)]
        cells = [f"{100 * float(values[layer - 1]):.1f} %" for values in numbers for layer in layers]
        rows.append((norm, f"{place} LayerNorm", *(cells or ["undefined"] * 2 * len(layers))))
    header = ("norm", "input", *(f"{what}, layer {layer}" for what in ("median", "not own main") for layer in layers))
    return Table("self-contribution, and tokens that are not their own main contributor", header, rows)


def _attribution_caption(study: Study) -> str:
    return (
        f"{study.model_name}; the first {study.scale.exact} sentence(s) of CoLA, exact Jacobians. The figures of the paper take "
        "the Frobenius norm and the input before the LayerNorm. The paper quotes for bert-base-uncased on MRPC medians of 30.6, "
        "14.4 and 10.7 % in layers 1, 6 and 12."
    )


def _with_bias(study: Study, bias: bool) -> list[xr.Dataset]:
    return [
        study.kept(f"option_bias_{bias}_{number}", lambda text=text: _effective(study, text.text, text.pair, bias))
        for number, text in enumerate(study.segments[: 4 * study.scale.compared])
    ]


def _effective(study: Study, text: str, pair: str | None, bias: bool) -> xr.Dataset:
    trace = study.model.trace(text, pair, truncate=True, form="weights")
    return effective_attention(trace, value_bias=bias, matrices=True, spectrum=False)[["correlation", "null_mass"]]


def _means(study: Study, bias: bool, name: str) -> xr.DataArray:
    return xr.concat([one[name] for one in _with_bias(study, bias)], "text").mean("text")


def _draw_bias(study: Study) -> Figure:
    curves = {name: _means(study, bias, "correlation") for name, bias in BIASES.items()}
    return whole(figures.draw_over_layers(curves, "correlation of A with A⊥", percent=False))


def _bias_table(study: Study) -> Table:
    rows = [
        (name, *(f"{float(_means(study, bias, what).mean()):.4f}" for what in ("correlation", "null_mass")))
        for name, bias in BIASES.items()
    ]
    return Table("means over layers and heads", ("option", "correlation of A with A⊥", "null mass"), rows)


def _bias_caption(study: Study) -> str:
    return f"{study.model_name}; {4 * study.scale.compared} pairs of spans of Wikipedia. The figures keep the bias."


OPTION_RECIPES = (
    Recipe("O1", "The norm of Jacobians, and the input before or after LayerNorm", ("CoLA",), _draw_attribution,
           _attribution_caption, table=_attribution_table),
    Recipe("O2", "Values with and without their bias", ("wiki",), _draw_bias, _bias_caption, table=_bias_table),
)  # fmt: skip
