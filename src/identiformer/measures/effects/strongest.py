"""The attention weights that matter most for what the model outputs: measured, bounded, and split into what they carry."""

from typing import Any

import numpy as np
import torch
import xarray as xr

from identiformer.equations.effects.parts import PARTS
from identiformer.measures.attention.ambiguity import ambiguity
from identiformer.measures.effects.effects import DRAWS, Effects
from identiformer.measures.effects.exact import LARGEST, Exact, first_order_of
from identiformer.measures.effects.levels import Levels, Weight
from identiformer.measures.effects.value_parts import Parts, can_resample, parts_of
from identiformer.measures.heads.heads import Heads
from identiformer.models import Model
from identiformer.models.objective import OutputTarget
from identiformer.passage import Passage
from identiformer.progress import work_bar
from identiformer.results import describe

DRAFT = 64
"""Resampled texts for the parts of values of a reading; `value_parts` takes more by default."""


def strongest_weights(
    model: Model,
    text: Any,
    pair: str | None = None,
    *,
    target: OutputTarget = None,
    count: int = LARGEST,
    certify: bool = True,
    texts: int = DRAFT,
    draws: int = DRAWS,
    kind: str | None = None,
    truncate: bool = False,
    seed: int = 0,
    progress: bool = False,
) -> xr.Dataset:
    """Find the attention weights that matter most for the output, and measure each by removing it.

    Candidates are the largest first-order effects of `weight_effects`; each is then removed in a run of the model, and the
    weights are ordered by what that changes. Of each, certified bounds say whether it could be otherwise, and the parts of its
    value what its effect goes through.

    Parameters
    ----------
    model, text, pair, target, draws, kind, truncate, seed, progress
        As in `weight_effects`.
    count : int
        How many weights.
    certify : bool
        Whether to compute certified bounds on them.
    texts : int
        Resampled texts for the parts of values, as in `value_parts`; 0 leaves the parts out, as do images, and tokenizers that
        know too few words of the texts that are resampled.

    Returns
    -------
    xarray.Dataset
        Over weight, the largest measured effect first: `layer`, `head`, `query`, `key`; `query_token` and `key_token`; `raw`, the
        attention weight; `low` and `high`, its certified bounds; `effect`, measured; `first_order`; `constant`, `token` and
        `context`, the sizes of the parts of the effect as shares of their sum, and `part`, the largest as an index into these, or
        -1. Over (head_layer, head_number): `head_effect`, the sum of the first-order effects of all weights of a head, without
        signs, as a share of that of all heads. `rounding`: the effect of no change at all.

    Examples
    --------
    >>> import identiformer as idf
    >>> weights = idf.strongest_weights(idf.load("minilm"), "He said that the pie was his.", count=3, texts=0, certify=False)
    >>> bool((weights.effect.diff("weight") <= 0).all())
    True
    """
    passage = Passage.of(model, text, pair, truncate=truncate, kind=kind, seed=seed)
    heads = Heads.of(passage)
    effects = Effects.of(passage, target, draws)
    levels = Levels.of(heads, effects, lambda head: effects.of_head(head, heads.rows))
    exact = Exact.of(effects, heads)
    with work_bar("removing weights", progress) as bar:
        candidates = levels.largest(count)
        bar.expect(len(candidates))
        measured = exact.remove(candidates, bar=bar)
    order = np.argsort(-np.abs(measured), kind="stable")
    weights, measured = [candidates[place] for place in order], measured[order]
    parts = parts_of(passage, texts, progress) if texts and can_resample(passage) else None
    queries, keys = heads.stack.queries.texts, heads.stack.keys.texts
    rows = [heads.rows[weight.row] for weight in weights]
    variables: dict[str, Any] = {
        **{name: ("weight", [getattr(weight, name) for weight in weights]) for name in ("layer", "head", "key")},
        "query": ("weight", rows),
        "query_token": ("weight", [queries[row] for row in rows]),
        "key_token": ("weight", [keys[weight.key] for weight in weights]),
        "key_special": ("weight", [heads.stack.keys.special[weight.key] for weight in weights]),
        "effect": ("weight", measured),
        "first_order": ("weight", first_order_of(exact, weights)),
        "head_effect": (("head_layer", "head_number"), head_effects(heads, effects)),
        "rounding": exact.rounding,
        **{name: ("weight", values) for name, values in _of_heads(heads, effects, parts, weights, certify).items()},
    }
    coordinates = {"head_layer": heads.layers, "head_number": heads.heads}
    objective = effects.objective
    settings = {
        "kind": heads.stack.kind, "target": target, "objective": objective.title, "unit": objective.unit,
        "prediction": objective.prediction, "probability": None if np.isnan(objective.probability) else objective.probability,
        "signed": objective.is_number, "draws": draws, "texts": texts, "seed": seed, "certified": certify,
    }  # fmt: skip
    return describe(xr.Dataset(variables, coordinates), "strongest_weights", passage.source, settings)


def head_effects(heads: Heads, effects: Effects) -> np.ndarray:
    """The sum of the sizes of the first-order effects of each head, as a share of that of all heads that are read."""
    sums = np.zeros((len(heads.layers), len(heads.heads)))
    for head in heads:
        counted = effects.reaching(head, heads.rows)
        found = torch.where(counted, effects.of_head(head, heads.rows).abs(), 0.0)
        sums[heads.layers.index(head.layer), heads.heads.index(head.head)] = float(found.sum())
    return sums / sums.sum() if sums.sum() else sums


def _of_heads(heads: Heads, effects: Effects, parts: Parts | None, weights: list[Weight], certify: bool) -> dict[str, np.ndarray]:
    """What needs the head of each weight, head by head: the weight, its bounds and its parts."""
    names = ("raw", *(("low", "high") if certify else ()), *((*PARTS, "part") if parts else ()))
    found = {name: np.full(len(weights), np.nan) for name in names}
    for layer, number in dict.fromkeys((weight.layer, weight.head) for weight in weights):
        head = heads.layer(layer).head(number, heads.stack.kind)
        chosen = [place for place, weight in enumerate(weights) if weight[:2] == (layer, number)]
        at = [weights[place].row for place in chosen], [weights[place].key for place in chosen]
        found["raw"][chosen] = head.weights.double()[at].numpy()
        if parts is not None:
            shares, part = parts.shares(head, effects.at(head, heads.rows))
            for name, values in zip((*PARTS, "part"), (*shares, part), strict=True):
                found[name][chosen] = values[at].numpy()
        if certify:
            queries = sorted({heads.rows[row] for row in at[0]})
            bounds = ambiguity(
                heads.trace, layer, number, queries=queries, keys=sorted(set(at[1])), kind=heads.stack.kind, alternatives=False
            )
            for place in chosen:
                one = bounds.sel(query=heads.rows[weights[place].row], key=weights[place].key)
                found["low"][place], found["high"][place] = float(one.low), float(one.high)
    return found
