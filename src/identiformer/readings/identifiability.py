"""Recovery rates of tokens, by probe and layer."""

from typing import Any

import xarray as xr

from identiformer.readings.blocks import Table
from identiformer.typed_json import finite_or_null


def rate_table(result: xr.Dataset) -> Table:
    """The rates of a `token_identifiability`, with half their intervals."""
    about = result.attrs
    match = {"strict": "the exact token", "lenient": "its word piece, because inputs have no positions"}[about["headline"]]
    truncated = f" ({about['cut']} of them truncated)" if "cut" in about else ""
    rows = [
        {"layer": str(layer), **{str(name): _rate(result.sel(layer=layer, probe=name)) for name in result["probe"].values}}
        for layer in result["layer"].values
    ]
    guessing = f"random guessing: {result.random_rate:.1%}"
    return Table(
        f"{about['model']}: recovery rate, % ({match}), ± half a 95% interval",
        rows,
        (f"{about['examples']} examples{truncated}, {about['tokens']} tokens; {guessing}",),
    )


def rates_as_json(result: xr.Dataset) -> dict[str, Any]:
    """The rates as JSON data."""
    names = ("rate", "rate_sd", "rate_low", "rate_high", "train_rate", "strict", "lenient", "vocabulary", "ties")
    rows = result[list(names)].to_dataframe(["probe", "layer"]).reset_index().to_dict("records")
    about = {name: result.attrs[name] for name in ("model", "revision", "examples", "tokens", "headline")}
    return about | {"random_rate": float(result.random_rate), "rates": finite_or_null(rows)}


def _rate(one: xr.Dataset) -> str:
    return f"{100 * one.rate:.1f} ±{50 * (one.rate_high - one.rate_low):.1f}".replace("nan ±nan", "—")
