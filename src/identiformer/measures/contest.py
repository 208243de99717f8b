"""Which map predicts what happens when something is removed: scores of any maps, including those that a user passes."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import reduce
from typing import Any

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from identiformer.errors import InputError, UnsupportedModelError
from identiformer.measures.corpus.faithfulness import FAITHFULNESS, state_of
from identiformer.measures.corpus.state import State
from identiformer.measures.faithfulness import choose_yardsticks
from identiformer.measures.faithfulness.judging import ArrayMap, Contest, TextScores, judge
from identiformer.measures.maps import MapKind
from identiformer.measures.maps.compute import choose_maps
from identiformer.models import Answer, Model
from identiformer.passage import Passage
from identiformer.results import describe, labeled, package_versions
from identiformer.texts import BLOCK, Example, read_corpus

Scores = Tensor | np.ndarray | Callable[[Passage], Tensor | np.ndarray] | MapKind
"""A map (layer query key) or an explanation (source) that a user brings, or a function that computes a map."""
Texts = str | Example | Answer | Sequence[str | tuple[str, str] | Example]
SHORT = 8
"""Tokens that are enough to see whether a model supports a map."""


def faithfulness(
    model: Model,
    texts: Texts,
    *,
    maps: Sequence[str] | Mapping[str, str | Scores] | None = None,
    yardsticks: Sequence[str] | None = None,
    seed: int = 0,
    truncate: bool = False,
) -> xr.Dataset:
    """Judge maps by yardsticks: how well each map predicts what happens when something is removed.

    Parameters
    ----------
    model : Model
        An encoder-decoder is judged in its encoder.
    texts : str, Example, Answer, or sequence of texts, pairs of texts and Example
        One text, or several, over which scores are averaged. Explanations of the output of an answer explain its first token.
    maps : sequence of str, or mapping, optional
        Names of maps, as in `maps`; or a mapping from any name to the name of a map, to an array (layer query key) or (source),
        or to a function that computes a map (layer query key) from a `Passage`, which is one text as the model reads it.
        Several texts need functions. By default all cheap maps.
    yardsticks : sequence of str, optional
        Names of yardsticks; `docs/comparing_maps.md` lists them. By default those that remove values or edges inside the model.
    seed : int
        Of the random map and of random directions.
    truncate : bool
        Truncate a text that is longer than the model accepts.

    Returns
    -------
    xarray.Dataset
        Of one text: `score` (map, yardstick, layer), for removal inside the model the mean over queries of Pearson's
        correlation of |map| with the effects; `spearman_score`, the same by ranks; `signed_score`, the same with the sign of
        the map, for signed maps only; `explanation_score` (explanation, explanation_yardstick), and
        `explanation_absolute_score`, the same with words ranked by the absolute value of a signed explanation.
        `tokens` () and `rank` (layer), the smallest rank of the values of a head: in texts with no more tokens,
        effective attention equals raw attention. `equal_to_raw` (map, layer): whether a map is raw attention up to rounding.
        Of several texts: the result of `compare`.
        The attribute `unsupported` names what the model does not support, with the reason.

    Examples
    --------
    >>> import identiformer as idf
    >>> model = idf.load("minilm")
    >>> distance = lambda passage: -(passage.visible * torch.arange(len(passage.tokens))).double()
    >>> result = idf.faithfulness(model, "He said hello.", maps={"raw": "raw", "mine": distance}, yardsticks=["value_zeroing"])
    >>> result.score.dims
    ('map', 'yardstick', 'layer')
    """
    kinds = [_kind(name, definition) for name, definition in maps.items()] if isinstance(maps, Mapping) else choose_maps(maps)
    contest = Contest.of(kinds, choose_yardsticks(yardsticks), named=maps is not None)
    settings = {"maps": [kind.name for kind in kinds], "seed": seed}
    if isinstance(texts, str | Example | Answer | Passage):
        passage = Passage.of(model, texts, truncate=truncate, seed=seed)
        return describe(
            _dataset(contest, _judge(passage, contest, named=maps is not None)), "faithfulness", passage.trace.source, settings
        )
    examples = read_corpus(texts)
    for kind in kinds:
        if isinstance(kind, ArrayMap):
            raise InputError(
                f"expected one text for the array {kind.name!r}, got {len(examples)}; pass a function that computes it."
            )
    states = []
    for index, example in enumerate(examples):
        block = examples[index - index % BLOCK :][:BLOCK]
        others = tuple(other for other in block if other is not example)
        passage = Passage.of(model, example, truncate=truncate, seed=(seed << 32) + index, others=others)
        states.append(state_of(index, contest, _judge(passage, contest, named=maps is not None)))
    result = FAITHFULNESS.finalize(reduce(State.merge, states, State.empty()))
    versions = {f"{package}_version": number for package, number in package_versions().items()}
    return describe(result, "corpus_faithfulness", {**model.identity, **versions}, {**settings, "examples": len(examples)})


def require_supported(model: Model, example: Example, maps: Sequence[str] | None, yardsticks: Sequence[str] | None) -> None:
    """Raise UnsupportedModelError, with the reason, if a model does not support a map or a yardstick that was chosen by name."""
    passage = Passage.of(model.limited(min(SHORT, model.positions or SHORT)), example, truncate=True)
    for kind in () if maps is None else choose_maps(maps):
        # An example that lacks what a map or a yardstick needs is reported when its turn comes.
        with suppress(InputError):
            kind.compute(passage)
    for yardstick in () if yardsticks is None else choose_yardsticks(yardsticks):
        with suppress(InputError):
            yardstick.truth(passage)


def _judge(passage: Passage, contest: Contest, *, named: bool) -> TextScores:
    """The scores of a text; raises if the model does not support a map that was chosen by name."""
    result = judge(passage, contest)
    for kind in (*contest.maps, *contest.explanations):
        if named and kind.name in result.unsupported:
            raise UnsupportedModelError(result.unsupported[kind.name])
    return result


def _kind(name: str, definition: str | Scores) -> MapKind:
    """A map of the registry, or one that a user brings."""
    if isinstance(definition, str):
        (kind,) = choose_maps([definition])
        return kind
    if isinstance(definition, MapKind):
        return definition
    kind, explains = (MapKind, False) if callable(definition) else (ArrayMap, np.ndim(definition) == 1)

    def compute(passage: Passage) -> Tensor:
        return _checked(name, definition(passage) if callable(definition) else definition, passage, explains)

    return kind(name, name, formula="", paper="", cost="unknown", compute=compute, signed=True, explains_output=explains)


def _checked(name: str, scores: Any, passage: Passage, explains: bool) -> Tensor:
    layers, queries, keys = passage.visible.shape
    expected, axes = ((keys,), "source") if explains else ((layers, queries, keys), "layer query key")
    try:
        array = torch.as_tensor(np.asarray(scores), dtype=torch.float64)
    except (TypeError, ValueError):
        raise InputError(f"expected numbers as the map {name!r}, got {type(scores).__name__}; convert it to an array.") from None
    if tuple(array.shape) != expected:
        raise InputError(
            f"expected the map {name!r} of shape {expected} ({axes}), got {tuple(array.shape)}; compute it on the same text and "
            "tokens."
        )
    if not bool(array.isfinite().all()):
        raise InputError(f"expected finite scores in the map {name!r}, got NaN or infinity; set undefined scores to zero.")
    return array


def _dataset(contest: Contest, result: TextScores) -> xr.Dataset:
    arrays = {
        "score": result.scores["score"],
        **{f"{name}_score": scores for name, scores in result.scores.items() if name != "score"},
        "explanation_score": result.explanation_scores["score"],
        "explanation_absolute_score": result.explanation_scores["absolute"],
        "equal_to_raw": result.equal_to_raw,
        "rank": result.rank,
        "tokens": result.tokens,
    }
    coordinates = {
        "map": [kind.name for kind in contest.maps],
        "yardstick": [one.name for one in contest.map_yardsticks],
        "explanation": [kind.name for kind in contest.explanations],
        "explanation_yardstick": [one.name for one in contest.explanation_yardsticks],
        "layer": np.arange(1, len(result.rank) + 1),
        "map_cost": ("map", [kind.cost for kind in contest.maps]),
        "yardstick_cost": ("yardstick", [one.cost for one in contest.map_yardsticks]),
    }
    attributes = {"unsupported": json.dumps(result.unsupported), "counts": json.dumps(result.counts)}
    return labeled("faithfulness", arrays, coordinates, attributes)
