"""Hidden Token Attribution of one text: self-contribution per layer, and the largest contributions to one token's vectors."""

import json
from functools import partial
from typing import Any

import xarray as xr

from identiformer.errors import InputError
from identiformer.figures.token_attribution import draw_all_tokens, draw_token_attribution
from identiformer.measures.indices import select_indices
from identiformer.readings.blocks import Block, Figure, Sentences, Table

TOP_SOURCES = 3
TERMS = {
    "contribution": "how strongly a hidden vector depends on an input vector (the norm of its Jacobian), as a share",
    "self-contribution": "the contribution of a token to its own hidden vector",
    "main contributor": "the input token with the largest contribution; undecided where the estimation error cannot rule out "
    "another",
    "neighbor": "tokens at this distance on either side; the line of each group sums to one over layers",
    "distance": "position of the source minus position of the target; the token itself is excluded",
}


def attribution_blocks(result: xr.Dataset, token: int = 0) -> list[Block]:
    """A result of `token_attribution` over all tokens, and one token in detail at every layer."""
    layers = [
        {
            "layer": str(layer["layer"]),
            "median self-contribution": f"{layer['median_self_contribution']:.1%}",
            "not own main contributor": layer["not_own_main"],
            "undecided": layer["undecided"],
        }
        for layer in _layers(result)
    ]
    of_token = [
        {
            "layer": str(vector["layer"]),
            "self-contribution": f"{vector['self_contribution']:.1%}",
            "largest contributions": ", ".join(
                f"{source['token']} {source['position']} ({source['share']:.1%} ± {source['error']:.1%})"
                for source in vector["main"]
            ),
            "first is certain": "yes" if vector["certain"] else "no",
        }
        for vector in _vectors(result, token)
    ]
    text = str(result.target_token.sel(target=token).values)
    return [
        Sentences("", attribution_sentences(result)),
        Table("All tokens", layers),
        Figure("Self-contribution per layer, and contribution by neighbor and by distance", partial(draw_all_tokens, result)),
        Table(f"The token {text} at {token}", of_token, ("Contributions to its hidden vector.",)),
        Figure(
            "Contributions of input tokens to one token's hidden vector, by layer", partial(draw_token_attribution, result, token)
        ),
    ]


def attribution_as_json(result: xr.Dataset, token: int = 0) -> dict[str, Any]:
    """The same as JSON data."""
    return {
        "model": result.attrs["model"],
        "tokens": result.sizes["target"],
        "token": str(result.target_token.sel(target=token).values),
        "position": token,
        "worst_error": float(result.distribution_error.max()),
        "layers": _layers(result),
        "of_token": _vectors(result, token),
    }


def attribution_sentences(result: xr.Dataset) -> list[str]:
    """How far tokens are mixed in the first and the last layer, and how exact that is."""
    layers = _layers(result)
    first, last = layers[0], layers[-1]
    mixing = (
        f"The median self-contribution of the {result.sizes['target']} tokens is {first['median_self_contribution']:.0%} at "
        f"layer {first['layer']} and {last['median_self_contribution']:.0%} at layer {last['layer']}, where "
        f"{last['not_own_main']:.0%} of the tokens have another token as their main contributor."
    )
    if json.loads(result.attrs["settings"])["exact"]:
        return [mixing, "The contributions are exact."]
    fewest, most = int(result.directions.min()), int(result.directions.max())
    count = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    return [
        mixing,
        f"Contributions are estimated from {count} random directions per token, with an expected error of at most "
        f"{float(result.distribution_error.max()):.1%} in total variation.",
    ]


def token_sentences(result: xr.Dataset, token: int) -> list[str]:
    """How the hidden vector of one token changes over the layers, from `token_attribution` with that target."""
    vectors = _vectors(result, token)
    first, last, main = vectors[0], vectors[-1], vectors[-1]["main"][0]
    label = "still its own token" if main["position"] == token else f"‘{main['token']}’ at {main['position']}"
    certain = "" if last["certain"] else ", though the error does not rule out another"
    return [
        f"The self-contribution of ‘{result.target_token.sel(target=token).values}’ at {token} is "
        f"{first['self_contribution']:.0%} at layer {first['layer']}, and {last['self_contribution']:.0%} at layer "
        f"{last['layer']}. Its main contributor there is {label} ({main['share']:.0%}){certain}.",
        f"Contributions are estimates, with an expected error of at most "
        f"{float(result.distribution_error.sel(target=token).max()):.1%} in total variation.",
    ]


def _layers(result: xr.Dataset) -> list[dict[str, Any]]:
    """How far the tokens of each layer are mixed."""
    undefined = result.contribution.isnull().any("source")
    if bool(undefined.any()):
        first = undefined.where(undefined, drop=True)
        raise InputError(
            f"expected every contribution to be defined, got NaN at layer {int(first.layer[0])}, target {int(first.target[0])}, "
            "as where derivatives are zero; check the model's weights and attribute the text again."
        )
    shares = {
        "median_self_contribution": result.self_contribution.median("target"),
        "not_own_main": (result.main_contributor != result.target).mean("target"),
        "undecided": (~result.main_contributor_certain).mean("target"),
    }
    layers = result["layer"].values.tolist()
    return [{"layer": layer, **{name: float(share.sel(layer=layer)) for name, share in shares.items()}} for layer in layers]


def _vectors(result: xr.Dataset, token: int) -> list[dict[str, Any]]:
    """The largest contributions to the hidden vector of one token at each layer."""
    select_indices(token, result.sizes["source"], "token")
    found = []
    for layer in result["layer"].values.tolist():
        vector = result.sel(layer=layer, target=token)
        largest = vector.isel(source=(-vector.contribution.values).argsort(kind="stable")[:TOP_SOURCES])
        columns = (largest[name].values.tolist() for name in ("source_token", "source", "contribution", "error"))
        main = [dict(zip(("token", "position", "share", "error"), source, strict=True)) for source in zip(*columns, strict=True)]
        certain = bool(vector.main_contributor_certain)
        found.append({"layer": layer, "self_contribution": float(vector.self_contribution), "main": main, "certain": certain})
    return found
