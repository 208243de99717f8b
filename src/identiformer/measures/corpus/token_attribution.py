"""Hidden Token Attribution over a corpus: what is left of tokens, and where the rest came from. Figs. 3, 4 and 18."""

import numpy as np
import torch
import xarray as xr

from identiformer.equations.attribution.hidden_token import NEIGHBORS, contribution_by_neighbors
from identiformer.measures.corpus.exact_sum import mean, split, total
from identiformer.measures.corpus.histogram import QUANTILE_ERROR, histogram, quantiles
from identiformer.measures.corpus.measure import CorpusMeasure, Observation
from identiformer.measures.corpus.state import State

FARTHEST = 128
"""Distances and positions beyond are counted together with this one."""
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
MEANS = ("self_contribution", "distribution_error")


def observe(seen: Observation) -> State:
    """Sums over the tokens of one text, which has its own order of adding, and so always the same."""
    result = seen.attribution
    shares, tokens = result.contribution.values, len(seen.tokens)
    own, others = result.self_contribution.values, result.main_contributor.values != np.arange(tokens)
    neighbors = contribution_by_neighbors(torch.tensor(shares), torch.arange(tokens)).numpy()
    has = ~np.isnan(neighbors)
    totals = {
        "self_histogram": histogram(own.clip(0, 1)),
        "self_contribution": split(own.sum(-1)),
        "distribution_error": split(result.distribution_error.values.sum(-1)),
        "tokens": np.full(len(own), tokens),
        "not_own_main": others.sum(-1),
        "certainly_not_own_main": (others & result.main_contributor_certain.values).sum(-1),
        "by_distance": split(_by_distance(shares)),
        "by_neighbors": split(np.where(has, neighbors, 0.0).sum(1)),
        "by_neighbors_count": has.sum(1),
    }
    totals |= _to_first_token(shares, seen)
    return State(totals)


def _by_distance(shares: np.ndarray) -> np.ndarray:
    """Summed contribution by source less target, from -FARTHEST to FARTHEST."""
    tokens = shares.shape[-1]
    distance = (np.arange(tokens) - np.arange(tokens)[:, None]).clip(-FARTHEST, FARTHEST) + FARTHEST
    return np.stack([np.bincount(distance.ravel(), layer.ravel(), minlength=2 * FARTHEST + 1) for layer in shares])


def _to_first_token(shares: np.ndarray, seen: Observation) -> dict[str, np.ndarray]:
    """What the first token, such as [CLS], is made of: by position; and of others, from where the first text of a pair ends."""
    positions = np.arange(shares.shape[-1])
    by_position = np.zeros((len(shares), FARTHEST + 1))
    near = positions[positions <= FARTHEST]
    by_position[:, near] = shares[:, 0, near]
    from_end = np.zeros((len(shares), 2 * FARTHEST + 1))
    separator = seen.model.tokenizer.sep_token
    if seen.example.pair is not None and separator in seen.tokens.texts:
        offset = positions - seen.tokens.texts.index(separator)
        near = (np.abs(offset) <= FARTHEST) & (positions > 0)
        from_end[:, offset[near] + FARTHEST] = shares[:, 0, near]
    return {"cls_by_position": split(by_position), "cls_from_separator": split(from_end)}


def finalize(state: State) -> xr.Dataset:
    """Shares of tokens and means over them; quantiles from a histogram, with its error beside them."""
    tokens = state["tokens"]
    by_distance, by_position = total(state["by_distance"]), total(state["cls_by_position"])
    by_distance[:, FARTHEST] = by_position[:, 0] = 0  # a token's own contribution is not that of others
    layer = ("layer",)
    variables = {
        "self_contribution_quantiles": (("quantile", *layer), quantiles(state["self_histogram"], QUANTILES)),
        "quantile_error": ((), QUANTILE_ERROR),
        **{name: (layer, mean(state[name], tokens)) for name in MEANS},
        "not_own_main": (layer, state["not_own_main"] / tokens),
        "certainly_not_own_main": (layer, state["certainly_not_own_main"] / tokens),
        "by_distance": ((*layer, "distance"), _normalized(by_distance)),
        "by_neighbors": ((*layer, "group"), mean(state["by_neighbors"], state["by_neighbors_count"])),
        "cls_by_position": ((*layer, "position"), _normalized(by_position)),
        "cls_from_separator": ((*layer, "distance"), _normalized(total(state["cls_from_separator"]))),
        "tokens": (layer, tokens),
    }
    coordinates = {
        "layer": np.arange(1, len(tokens) + 1),
        "quantile": list(QUANTILES),
        "distance": np.arange(-FARTHEST, FARTHEST + 1),
        "group": list(NEIGHBORS),
        "position": np.arange(FARTHEST + 1),
    }
    return xr.Dataset(variables, coordinates)


def _normalized(totals: np.ndarray) -> np.ndarray:
    """Totals over all texts as shares, as Figs. 4b and 18 show them; NaN where nothing was given."""
    with np.errstate(invalid="ignore"):
        return totals / totals.sum(-1, keepdims=True)


TOKEN_ATTRIBUTION = CorpusMeasure("token_attribution", observe, finalize, needs_trace=False, cheap=False)
