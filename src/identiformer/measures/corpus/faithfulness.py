"""Faithfulness over a corpus: how well each map predicts each yardstick, with bootstrap intervals over examples.

A state keeps the scores of each example under a name of its own, about ten kilobytes, because intervals need them one by one.
"""

import json
from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr

from identiformer.errors import InputError, ResultError
from identiformer.measures.corpus.measure import CorpusMeasure, Observation
from identiformer.measures.corpus.state import State
from identiformer.measures.faithfulness import YARDSTICKS, choose_yardsticks
from identiformer.measures.faithfulness.bootstrap import estimate, from_fixed_point, to_fixed_point
from identiformer.measures.faithfulness.judging import OTHER_SCORES, Contest, TextScores, judge
from identiformer.measures.maps import MapKind, find_map
from identiformer.measures.maps.compute import choose_maps
from identiformer.results import labeled

EXPLANATION_SCORES = ("score", "absolute_score")
AXES = ("maps", "explanations", "map_yardsticks", "explanation_yardsticks")
REFERENCE = "raw"
"""The map that others are compared with."""


def _observe(observation: Observation) -> State:
    maps = observation.maps or None
    contest = Contest.of(choose_maps(maps), choose_yardsticks(observation.yardsticks or None), named=maps is not None)
    return state_of(observation.index, contest, judge(observation.passage, contest))


def state_of(index: int, contest: Contest, result: TextScores) -> State:
    """The scores of one example. The names of maps and yardsticks, and reasons, are in the names of totals, which count texts."""
    example = f"{index:012d}"
    one = np.array(1)
    totals = {f"{axis}/{','.join(kind.name for kind in getattr(contest, axis))}": one for axis in AXES}
    totals[f"score/{example}"] = to_fixed_point(result.scores["score"])
    totals[f"text/{example}"] = np.array([result.tokens, *result.rank])
    totals["equal_to_raw"] = result.equal_to_raw.astype(np.int64)
    for name in OTHER_SCORES:
        totals[f"{name}_score/{example}"] = to_fixed_point(mean_over(result.scores[name], -1))
    for name in EXPLANATION_SCORES:
        totals[f"explanation_{name}/{example}"] = to_fixed_point(result.explanation_scores[name.removesuffix("_score")])
    totals |= {f"unsupported/{name}/{reason}": one for name, reason in result.unsupported.items()}
    totals |= {f"counts/{name}": np.array(count) for name, count in result.counts.items()}
    return State(dict(sorted(totals.items())))


def mean_over(scores: np.ndarray, axis: int) -> np.ndarray:
    """The mean over an axis of what is defined; NaN where nothing is."""
    defined = ~np.isnan(scores)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(defined, scores, 0).sum(axis) / defined.sum(axis)


def _finalize(state: State) -> xr.Dataset:
    """Means over examples with 95% intervals, and differences to raw attention on the same examples."""
    maps, explanations, yardsticks, judges = (_names(state, axis) for axis in AXES)
    score, explained = _stacked(state, "score"), _stacked(state, "explanation_score")
    texts = np.stack(list(_under(state, "text").values()))
    tokens, rank = texts[:, 0], texts[:, 1:]
    by_example = mean_over(score, -1)
    others = (*(f"{name}_score" for name in OTHER_SCORES), "explanation_absolute_score")
    arrays = {
        **_estimated("score", by_example),
        **_estimated("layer_score", score),
        **_estimated("explanation_score", explained),
        **{key: array for name in others for key, array in _estimated(name, _stacked(state, name)).items()},
        "example_score": by_example,
        "example_explanation_score": explained,
        "equal_to_raw": state["equal_to_raw"] / len(texts),
        "tokens": tokens,
        "rank": rank,
        "short_share": (tokens[:, None] <= rank).all(-1).mean(),
    }
    if REFERENCE in maps:
        arrays |= _estimated("difference", by_example - by_example[:, [maps.index(REFERENCE)]])
    coordinates = {
        "map": maps,
        "yardstick": yardsticks,
        "explanation": explanations,
        "explanation_yardstick": judges,
        "layer": np.arange(1, rank.shape[1] + 1),
        "example": [int(name) for name in _under(state, "text")],
        **_described("map", maps),
        **_described("explanation", explanations),
        **_described("yardstick", yardsticks),
        **_described("explanation_yardstick", judges),
    }
    unsupported = {name: reason for name, _, reason in (rest.partition("/") for rest in _under(state, "unsupported"))}
    counts = {name: int(count) for name, count in _under(state, "counts").items()}
    attributes = {"unsupported": json.dumps(unsupported), "counts": json.dumps(counts)}
    return labeled("corpus_faithfulness", arrays, coordinates, attributes)


def _described(axis: str, names: Sequence[str]) -> dict[str, tuple[str, list[str]]]:
    """The titles and the costs of maps or yardsticks, as coordinates."""
    known = [YARDSTICKS[name] if axis.endswith("yardstick") else _map(name) for name in names]
    titles = [name if kind is None else kind.title for name, kind in zip(names, known, strict=True)]
    costs = ["unknown" if kind is None else kind.cost for kind in known]
    return {f"{axis}_title": (axis, titles), f"{axis}_cost": (axis, costs)}


def _map(name: str) -> MapKind | None:
    """The map of a name; None for one that a user brings."""
    try:
        return find_map(name)
    except InputError:
        return None


def _estimated(name: str, scores: np.ndarray) -> dict[str, np.ndarray]:
    endings = ("", "_low", "_high", "_examples")
    return {f"{name}{ending}": array for ending, array in zip(endings, estimate(scores), strict=True)}


def _under(state: State, prefix: str) -> Mapping[str, np.ndarray]:
    """The totals under a prefix, by the rest of their names, in order."""
    start = f"{prefix}/"
    return {name.removeprefix(start): total for name, total in sorted(state.totals.items()) if name.startswith(start)}


def _names(state: State, axis: str) -> list[str]:
    lists = list(_under(state, axis))
    if len(lists) != 1:
        raise ResultError(f"expected the same {axis.replace('_', ' ')} in all shards, got {len(lists)} lists of them.")
    return lists[0].split(",") if lists[0] else []


def _stacked(state: State, prefix: str) -> np.ndarray:
    return np.stack([from_fixed_point(numbers) for numbers in _under(state, prefix).values()])


FAITHFULNESS = CorpusMeasure("faithfulness", _observe, _finalize, cheap=False, per_example=True)
