"""The effect of every attention weight on what a model outputs: first order, exact for the largest, with intervals."""

from math import prod
from typing import Any

import numpy as np
import xarray as xr

from identiformer.measures.effective import check_budget
from identiformer.measures.effects.effects import DRAWS, Effects
from identiformer.measures.effects.exact import LARGEST, Calibration, Exact
from identiformer.measures.effects.levels import Levels
from identiformer.measures.heads.heads import REMEDY, Heads
from identiformer.measures.heads.table import token_coordinates
from identiformer.measures.indices import Indices
from identiformer.models import Model
from identiformer.models.objective import OutputTarget
from identiformer.passage import Passage
from identiformer.progress import work_bar
from identiformer.results import describe

MAPS = ("weight", "effect", "effect_renormalized", "effect_low", "effect_high", "exact")


def weight_effects(
    model: Model,
    text: Any,
    pair: str | None = None,
    *,
    target: OutputTarget = None,
    layers: Indices | None = None,
    heads: Indices | None = None,
    queries: Indices | None = None,
    draws: int = DRAWS,
    largest: int = LARGEST,
    calibrate: bool = True,
    kind: str | None = None,
    truncate: bool = False,
    seed: int = 0,
    progress: bool = False,
) -> xr.Dataset:
    """Estimate how much each attention weight matters for what the model outputs, and remove the largest to measure it.

    Removing the value of a weight changes the output of its head by -a_ij·v_j. To first order that changes a number f that the
    model outputs by -e_ij, with e_ij = a_ij·⟨v_j, ∂f/∂o_i⟩: all weights of all heads from one backward pass. Without a number,
    K_ij estimates how far all outputs move, from `draws` backward passes.

    Parameters
    ----------
    model : Model
    text : str, Answer, Tensor, Trace or Passage
        A text, an answer of the model, or an image for a vision model, as in `Model.trace`.
    pair : str, optional
        The second text of a pair.
    target : str, int or tuple of str, optional
        What the effects are on. "output", the default: all predicted distributions, of an answer those of its tokens, of a
        classifier that of the classes, in nats; of a model that predicts nothing, its embedding, in 1 - cos. "next": the
        log-probability of the most probable next token, or class. A token or class: its log-probability. Two tokens: the
        difference of their logits. A number: the log-probability of that token of an answer. "embedding" or "hidden": the mean
        of the last hidden vectors, or all of them. For a model that predicts nothing, a text: the similarity with it.
    layers, heads, queries : int or sequence of int, optional
        Which to return; all by default. Layers count from 1, heads and positions from 0.
    draws : int
        Backward passes of a target that is not a number; the relative error of an effect is about √(2/draws).
    largest : int
        How many weights with the largest first-order effects are removed, one at a time, in runs of the model.
    calibrate : bool
        Whether to remove 200 more weights, drawn by the size of their effect, from which the intervals are computed.
    kind : str, optional
        Attention type; the first of the model by default.
    truncate : bool
        Truncate a text that is longer than the model accepts.
    seed : int
        Of the draws and of the sample.
    progress : bool
        Show a progress bar.

    Returns
    -------
    xarray.Dataset
        Over (layer, head, query, key): `weight`; `effect`, to first order: positive where the weight increases a number,
        otherwise how far the output moves; `effect_low` and `effect_high`, intervals that hold 95% of exact effects;
        `effect_renormalized` of a number, if the softmax is taken without the key; and `exact`, NaN where the weight was not
        removed. NaN in rows that see one key, which make no choice, and where the key is not visible. Over stratum:
        `interval_factor`, `stratum_level` and `sampled`. `rounding`: the effect of no change at all.

    Examples
    --------
    >>> import identiformer as idf
    >>> effects = idf.weight_effects(idf.load("minilm"), "He said that the pie was his.", largest=5, calibrate=False)
    >>> int(effects.exact.notnull().sum())
    5
    """
    passage = Passage.of(model, text, pair, truncate=truncate, kind=kind, seed=seed)
    chosen = Heads.of(passage, layers, heads, queries)
    check_budget(8 * len(MAPS) * prod(chosen.shape), model.memory, REMEDY)
    effects = Effects.of(passage, target, draws)
    is_number = effects.objective.is_number
    exact = Exact.of(effects, chosen)
    arrays = {name: np.full(chosen.shape, np.nan) for name in MAPS if is_number or name != "effect_renormalized"}
    levels = Levels.of(chosen, effects, lambda head: effects.of_head(head, chosen.rows))
    with work_bar("removing weights", progress) as bar:
        top = levels.largest(largest)
        bar.expect(len(top))
        removed = dict(zip(top, exact.remove(top, bar=bar), strict=True))
        calibration = Calibration.of(exact, levels, bar) if calibrate else None
    for head in chosen:
        at = chosen.layers.index(head.layer), chosen.heads.index(head.head)
        unseen = ~(head.visible.dense() & effects.choices(head)).numpy()
        found = {"weight": head.weights.double().numpy(), "effect": effects.of_head(head, chosen.rows).numpy()}
        if is_number:
            found["effect_renormalized"] = effects.renormalized(head, chosen.rows).numpy()
        if calibration is not None:
            level = levels.by_layer[at[0]][at[1]].numpy()
            found["effect_low"], found["effect_high"] = calibration.interval(found["effect"], level, is_number)
        for name, values in found.items():
            arrays[name][at] = np.where(unseen & (name != "weight"), np.nan, values)
    for weight, effect in removed.items():
        arrays["exact"][chosen.layers.index(weight.layer), chosen.heads.index(weight.head), weight.row, weight.key] = effect
    variables: dict[str, Any] = {name: (("layer", "head", "query", "key"), array) for name, array in arrays.items()}
    variables["rounding"] = exact.rounding
    if calibration is not None:
        variables["interval_factor"] = ("stratum", calibration.factors)
        variables["largest_exact"] = ("stratum", calibration.largest)
        variables["sampled"] = ("stratum", calibration.sampled)
    coordinates = {"layer": chosen.layers, "head": chosen.heads, **token_coordinates(chosen)}
    settings = {
        "kind": chosen.stack.kind, "target": target, "objective": effects.objective.title, "unit": effects.objective.unit,
        "draws": 1 if is_number else draws, "seed": seed,
    }  # fmt: skip
    return describe(xr.Dataset(variables, coordinates), "weight_effects", passage.source, settings)
