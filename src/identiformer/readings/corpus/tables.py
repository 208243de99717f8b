"""One table per measure of a run: means and quantiles by layer, and what else is best read in numbers."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import xarray as xr

from identiformer.readings.blocks import Row, Table
from identiformer.results.schema import first_middle_last

Column = Callable[[xr.Dataset], str]
"""From the results of one layer to a cell."""
Content = tuple[str, Sequence[Row]]
"""The note and the rows of a table."""


def tables_of(results: Mapping[str, xr.Dataset]) -> dict[str, Table]:
    """Make one table per measure."""
    found = {name: TABLES[name](result) for name, result in results.items() if name in TABLES}
    return {name: Table(name.replace("_", " ").capitalize(), rows, (note,)) for name, (note, rows) in found.items()}


def _by_layer(note: str, columns: Mapping[str, Column]) -> Callable[[xr.Dataset], Content]:
    def content(result: xr.Dataset) -> Content:
        layers = result["layer"].values
        return note, [
            {"layer": str(layer), **{name: cell(result.sel(layer=layer)) for name, cell in columns.items()}} for layer in layers
        ]

    return content


def _mean(name: str, form: str, **select: str) -> Column:
    def cell(layer: xr.Dataset) -> str:
        values = layer[name].sel(select).values
        return format(float(np.nanmean(values)), form) if np.isfinite(values).any() else "—"

    return cell


def _quantile(name: str, level: float) -> Column:
    return lambda layer: f"{float(layer[name].sel(quantile=level)):.3f}"


def _effective_attention(result: xr.Dataset) -> Content:
    columns = {
        "null mass": _mean("null_mass", ".1%"),
        "correlation": _mean("correlation", ".3f"),
        "nullity": _mean("nullity", ".1f"),
    }
    for kind in result["kind"].values:
        raw, effective = (_mean(f"{name}_received", ".1%", kind=kind) for name in ("raw", "effective"))
        columns[f"to {kind}"] = lambda layer, raw=raw, effective=effective: f"{raw(layer)} {effective(layer)}"
    return _by_layer("Means over heads and texts; of attention to some tokens: raw, effective.", columns)(result)


def _token_attribution(result: xr.Dataset) -> Content:
    columns = {
        "self-contribution: median": _quantile("self_contribution_quantiles", 0.5),
        "first quartile": _quantile("self_contribution_quantiles", 0.25),
        "third": _quantile("self_contribution_quantiles", 0.75),
        "not own main contributor": _mean("not_own_main", ".1%"),
    }
    error = float(result.distribution_error.mean())
    note = f"Over tokens; quantiles to ±{float(result.quantile_error):.2%}; error of the estimated distributions {error:.1%}."
    return _by_layer(note, columns)(result)


def _self_contribution_by_tag(result: xr.Dataset) -> Content:
    medians = result.self_contribution_quantiles.sel(quantile=0.5)
    layers = result["layer"].values
    present = result["tag"].values[result.tokens.values > 0]
    rows: list[Row] = [
        {
            "tag": str(tag),
            "tokens": str(int(result.tokens.sel(tag=tag))),
            **{f"layer {layer}": f"{float(medians.sel(layer=layer, tag=tag)):.3f}" for layer in first_middle_last(layers)},
        }
        for tag in sorted(present, key=lambda tag: -float(medians.sel(layer=layers[-1], tag=tag)))
    ]
    return f"Medians over the tokens of each tag, to ±{float(result.quantile_error):.2%}.", rows


def _faithfulness(result: xr.Dataset) -> Content:
    """Scores of maps on all yardsticks; of explanations where there are no maps. The page of a comparison has both."""
    row, column, score = ("map", "yardstick", "score")
    if not result.sizes[column]:
        row, column, score = ("explanation", "explanation_yardstick", "explanation_score")
    rows: list[Row] = [
        {row: str(title), **{str(one[column].values): _score(float(one)) for one in scores}}
        for title, scores in zip(result[f"{row}_title"].values, result[score].transpose(row, column), strict=True)
    ]
    return "Means over layers and examples; intervals are in the result.", rows


def _score(score: float) -> str:
    return f"{score:.2f}" if np.isfinite(score) else "—"


TABLES: dict[str, Callable[[xr.Dataset], Content]] = {
    "effective_attention": _effective_attention,
    "attention_identifiability": _by_layer(
        "Means over heads and rows.",
        {
            "rank": _mean("rank", ".1f"),
            "nullity": _mean("nullity", ".1f"),
            "identifiable rows": _mean("identified", ".1%"),
            "identifiable as attention": _mean("identified_on_simplex", ".1%"),
        },
    ),
    "token_attribution": _token_attribution,
    "self_contribution_by_tag": _self_contribution_by_tag,
    "ambiguity": _by_layer(
        "One random row per layer of every text.",
        {
            "rows": _mean("rows", ".0f"),
            "largest weight certified": _mean("certified", ".1%"),
            "its interval: median width": _quantile("width_quantiles", 0.5),
            "mean": _mean("width", ".3f"),
        },
    ),
    "reading": _by_layer(
        "Shares of the attention weight, means over heads and texts.",
        {
            "certified": _mean("certified", ".1%"),
            "and contributing": _mean("contributing", ".1%"),
            "and attributed to the token": _mean("readable", ".1%"),
            "on sinks": _mean("sink_share", ".1%"),
        },
    ),
    "faithfulness": _faithfulness,
}
