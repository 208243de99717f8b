"""What a person should know of where one text's hidden vectors came from."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import xarray as xr

from identiformer.errors import InputError
from identiformer.measures.selection import chosen

TOP_SOURCES = 3


@dataclass(frozen=True)
class LayerMixing:
    """One row of the table of layers."""

    layer: int
    median_self_contribution: float
    not_own_main: float
    """The share of tokens that are not their own main contributor."""
    undecided: float
    """The share of tokens whose main contributor the error leaves open."""


@dataclass(frozen=True)
class Contributor:
    """An input token and its share in a hidden vector."""

    token: str
    position: int
    share: float
    error: float


@dataclass(frozen=True)
class TokenMixing:
    """One row of the table of one token: a layer, and what its hidden vector there is made of."""

    layer: int
    self_contribution: float
    main: tuple[Contributor, ...]
    certain: bool


@dataclass(frozen=True)
class AttributionSummary:
    """The findings on one text, in the order in which they are told."""

    model: str
    tokens: int
    token: str
    position: int
    layers: tuple[LayerMixing, ...]
    of_token: tuple[TokenMixing, ...]
    worst_error: float
    result: xr.Dataset

    def sentences(self) -> list[str]:
        """The findings in words."""
        first, last = self.layers[0], self.layers[-1]
        mixing = (
            f"A token's own share in its hidden vector is {first.median_self_contribution:.0%} at layer {first.layer} and "
            f"{last.median_self_contribution:.0%} at layer {last.layer} (medians over {self.tokens} tokens); by then "
            f"{last.not_own_main:.0%} of the tokens are made of another token more than of themselves."
        )
        settings = json.loads(self.result.attrs["settings"])
        if settings["exact"]:
            return [mixing, "The shares are exact."]
        fewest, most = int(self.result.directions.min()), int(self.result.directions.max())
        count = f"{fewest}" if fewest == most else f"{fewest} to {most}"
        return [
            mixing,
            f"Estimated from {count} random directions per token; as distributions, shares are expected to err by no more than "
            f"{self.worst_error:.1%}.",
        ]

    def as_json(self) -> dict[str, Any]:
        """The findings as plain data."""
        plain = {name: value for name, value in vars(self).items() if name not in ("result", "layers", "of_token")}
        rows = {"layers": [asdict(row) for row in self.layers], "of_token": [asdict(row) for row in self.of_token]}
        return {**plain, **rows}


def summarize_attribution(result: xr.Dataset, token: int = 0) -> AttributionSummary:
    """The findings of `token_attribution`, with one token looked at in every layer."""
    chosen([token], result.sizes["source"], "token")
    undefined = result.contribution.isnull().any("source")
    if bool(undefined.any()):
        at = undefined.where(undefined, drop=True)
        raise InputError(
            f"expected contributions that are all defined, got NaN at layer {int(at.layer[0])}, target {int(at.target[0])}, as "
            "where derivatives are zero; attribute the text again after checking the model's weights."
        )
    strangers, decided = result.main_contributor != result.target, result.main_contributor_certain
    layers = [
        LayerMixing(
            int(layer),
            float(result.self_contribution.sel(layer=layer).median()),
            float(strangers.sel(layer=layer).mean()),
            float((~decided.sel(layer=layer)).mean()),
        )
        for layer in result["layer"].values
    ]
    one = result.sel(target=token)
    return AttributionSummary(
        model=result.attrs["model"],
        tokens=result.sizes["target"],
        token=str(one.target_token.values),
        position=token,
        layers=tuple(layers),
        of_token=tuple(_mixing(one.sel(layer=layer)) for layer in result["layer"].values),
        worst_error=float(result.distribution_error.max()),
        result=result,
    )


def _mixing(one: xr.Dataset) -> TokenMixing:
    order: Sequence[int] = (-one.contribution.values).argsort(kind="stable")[:TOP_SOURCES]
    main = tuple(
        Contributor(str(one.source_token.values[place]), int(place), float(one.contribution[place]), float(one.error[place]))
        for place in order
    )
    return TokenMixing(int(one["layer"]), float(one.self_contribution), main, bool(one.main_contributor_certain))
