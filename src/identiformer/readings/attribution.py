"""A summary of one text's Hidden Token Attribution: self-contribution per layer, and one token in detail."""

import json
from dataclasses import asdict, dataclass
from typing import Any

import xarray as xr

from identiformer.errors import InputError
from identiformer.measures.indices import select_indices

TOP_SOURCES = 3


@dataclass(frozen=True)
class LayerMixing:
    """How far the tokens of one layer are mixed."""

    layer: int
    median_self_contribution: float
    not_own_main: float
    """The share of tokens that are not their own main contributor."""
    undecided: float
    """The share of tokens whose main contributor is undecided within the error."""


@dataclass(frozen=True)
class Contributor:
    """An input token and its contribution to a hidden vector."""

    token: str
    position: int
    share: float
    error: float


@dataclass(frozen=True)
class TokenMixing:
    """One token at one layer: the largest contributions to its hidden vector."""

    layer: int
    self_contribution: float
    main: tuple[Contributor, ...]
    certain: bool


@dataclass(frozen=True)
class AttributionSummary:
    """The findings on one text; `sentences()` puts them into words."""

    model: str
    tokens: int
    token: str
    position: int
    layers: tuple[LayerMixing, ...]
    of_token: tuple[TokenMixing, ...]
    worst_error: float
    result: xr.Dataset

    def sentences(self) -> list[str]:
        """The findings as sentences."""
        first, last = self.layers[0], self.layers[-1]
        mixing = (
            f"The median self-contribution of the {self.tokens} tokens is {first.median_self_contribution:.0%} at layer "
            f"{first.layer} and {last.median_self_contribution:.0%} at layer {last.layer}, where {last.not_own_main:.0%} of the "
            "tokens have another token as their main contributor."
        )
        settings = json.loads(self.result.attrs["settings"])
        if settings["exact"]:
            return [mixing, "The contributions are exact."]
        fewest, most = int(self.result.directions.min()), int(self.result.directions.max())
        count = f"{fewest}" if fewest == most else f"{fewest} to {most}"
        return [
            mixing,
            f"Contributions are estimated from {count} random directions per token, with an expected error of at most "
            f"{self.worst_error:.1%} in total variation.",
        ]

    def as_json(self) -> dict[str, Any]:
        """The findings as JSON data."""
        plain = {name: value for name, value in vars(self).items() if name not in ("result", "layers", "of_token")}
        rows = {"layers": [asdict(row) for row in self.layers], "of_token": [asdict(row) for row in self.of_token]}
        return {**plain, **rows}


def summarize_attribution(result: xr.Dataset, token: int = 0) -> AttributionSummary:
    """Summarize a result of `token_attribution`, with one token in detail at every layer."""
    select_indices(token, result.sizes["source"], "token")
    undefined = result.contribution.isnull().any("source")
    if bool(undefined.any()):
        first = undefined.where(undefined, drop=True)
        raise InputError(
            f"expected every contribution to be defined, got NaN at layer {int(first.layer[0])}, target {int(first.target[0])}, "
            "as where derivatives are zero; check the model's weights and attribute the text again."
        )
    mixed, decided = result.main_contributor != result.target, result.main_contributor_certain
    layers = [
        LayerMixing(
            int(layer),
            float(result.self_contribution.sel(layer=layer).median()),
            float(mixed.sel(layer=layer).mean()),
            float((~decided.sel(layer=layer)).mean()),
        )
        for layer in result["layer"].values
    ]
    vectors = result.sel(target=token)
    return AttributionSummary(
        model=result.attrs["model"],
        tokens=result.sizes["target"],
        token=str(vectors.target_token.values),
        position=token,
        layers=tuple(layers),
        of_token=tuple(_mixing(vectors.sel(layer=layer)) for layer in result["layer"].values),
        worst_error=float(result.distribution_error.max()),
        result=result,
    )


def token_sentences(result: xr.Dataset, token: int) -> list[str]:
    """How the hidden vector of one token changes over the layers, from `token_attribution` with that target."""
    vectors = result.sel(target=token)
    first, last = (_mixing(vectors.isel(layer=layer)) for layer in (0, -1))
    main = last.main[0]
    label = "still its own token" if main.position == token else f"‘{main.token}’ at {main.position}"
    certain = "" if last.certain else ", though the error does not rule out another"
    error = float(vectors.distribution_error.max())
    return [
        f"At layer {first.layer}, {first.self_contribution:.0%} of the vector of ‘{vectors.target_token.values}’ at {token} "
        f"comes from its own token; at layer {last.layer}, {last.self_contribution:.0%}. Its main contributor there is {label} "
        f"({main.share:.0%}){certain}.",
        f"Contributions are estimates, with an expected error of at most {error:.1%} in total variation.",
    ]


def _mixing(vector: xr.Dataset) -> TokenMixing:
    shares, errors = vector.contribution.values, vector.error.values
    main = tuple(
        Contributor(str(vector.source_token.values[source]), int(source), float(shares[source]), float(errors[source]))
        for source in (-shares).argsort(kind="stable")[:TOP_SOURCES]
    )
    return TokenMixing(int(vector["layer"]), float(vector.self_contribution), main, bool(vector.main_contributor_certain))
