"""Any set of maps of one text, as one Dataset."""

import json
from collections.abc import Sequence

import numpy as np
import torch
import xarray as xr

from identiformer.errors import InputError, UnsupportedModelError
from identiformer.measures.effective import check_budget
from identiformer.measures.indices import select_indices
from identiformer.measures.maps import MAPS, MapKind, find_map
from identiformer.models import Model
from identiformer.passage import Passage, Readable
from identiformer.results import describe, labeled


def maps(
    model: Model,
    text: Readable,
    pair: str | None = None,
    *,
    kinds: Sequence[str] | None = None,
    step: int = 0,
    seed: int = 0,
    truncate: bool = False,
) -> xr.Dataset:
    """Compute maps of the field on one text: how much each token matters to another in each layer, and to the output.

    Parameters
    ----------
    model : Model
        Maps of an encoder-decoder are those of its encoder.
    text, pair, truncate
        As in `Model.trace`; an answer of the model, or a passage, too.
    kinds : sequence of str, optional
        Names of maps; `docs/maps.md` lists them. ``"rollout:NAME"`` and ``"flow:NAME"`` combine any map of layers. By default
        all that take no longer than a few forward passes and that the model supports.
    step : int
        Which token of an answer the explanations of the output explain, counted from 0. `answer_attribution` explains all.
    seed : int
        Of the random map and of random directions.

    Returns
    -------
    xarray.Dataset
        `score` (map, layer, query, key): larger where the key matters more to the query; signed where `signed` (map) says so.
        `zero_rows` (map, layer): the number of rows without any score. `importance` (explanation, source): of each token to the
        output. The attribute `unsupported` names the maps that were left out of the default, with the reason.

    Examples
    --------
    >>> import identiformer as idf
    >>> result = idf.maps(idf.load("minilm"), "He said hello.", kinds=["raw", "contribution"])
    >>> result.score.sel(map="raw").shape
    (6, 6, 6)
    """
    passage = Passage.of(model, text, pair, truncate=truncate, seed=seed, step=step)
    if passage.answer is not None:
        select_indices(step, len(passage.answer.probabilities), "step")
    chosen = choose_maps(kinds)
    stack = passage.stack
    layers, queries, keys = len(stack.layers), len(stack.queries), len(stack.keys)
    check_budget(8 * len(chosen) * layers * queries * keys, model.memory, "choose fewer kinds=, or a shorter text")
    computed, unsupported = {}, {}
    for kind in chosen:
        try:
            computed[kind.name] = kind.scores(passage)
        except UnsupportedModelError as error:
            if kinds is not None:
                raise
            unsupported[kind.name] = str(error)
    pairs = [kind for kind in chosen if kind.name in computed and not kind.explains_output]
    outputs = [kind for kind in chosen if kind.name in computed and kind.explains_output]
    arrays, coordinates = {}, {}
    if pairs:
        scores = torch.stack([computed[kind.name] for kind in pairs])
        arrays = {"score": scores, "zero_rows": (scores == 0).all(-1).sum(-1)}
        coordinates |= {"map": [kind.name for kind in pairs], "signed": ("map", [kind.signed for kind in pairs])}
        coordinates |= {"layer": np.arange(1, layers + 1), "query": np.arange(queries), "key": np.arange(keys)}
        coordinates |= {"query_token": ("query", list(stack.queries.texts)), "key_token": ("key", list(stack.keys.texts))}
    if outputs:
        arrays["importance"] = torch.stack([computed[kind.name] for kind in outputs])
        coordinates |= {"explanation": [kind.name for kind in outputs], "source": np.arange(keys)}
        coordinates |= {"source_token": ("source", list(stack.keys.texts))}
    result = labeled("maps", arrays, coordinates, {"unsupported": json.dumps(unsupported)})
    return describe(result, "maps", passage.trace.source, {"kinds": [*computed], "seed": seed, "step": step})


def choose_maps(names: Sequence[str] | None) -> list[MapKind]:
    """The maps of these names; all cheap maps by default."""
    if names is None:
        return [kind for kind in MAPS.values() if kind.cheap]
    if not names:
        raise InputError(f"expected maps among {', '.join(MAPS)}, got none.")
    return [find_map(name) for name in dict.fromkeys(names)]
