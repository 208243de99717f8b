"""Judge maps of one text by yardsticks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from identiformer.equations.attention.rank import numerical_rank
from identiformer.errors import UnsupportedModelError
from identiformer.measures.faithfulness.yardstick import Yardstick
from identiformer.measures.maps import MAPS, MapKind
from identiformer.names import check_pairs
from identiformer.passage import Passage

Scores = dict[str, np.ndarray]
OTHER_SCORES, OTHER_EXPLANATION_SCORES = ("spearman", "signed"), ("absolute",)
"""Names of further scores that results have."""
OF_SIGNED_MAPS = ("signed", "absolute")
SAME = 1e-5
"""Maps are equal where no pair differs by more than this share of the largest weight of the layer."""


class ArrayMap(MapKind):
    """A map that a user passes as an array, which cannot be computed again."""


@dataclass(frozen=True)
class Contest:
    """Maps and the yardsticks that judge them, explanations and the yardsticks that judge those."""

    maps: tuple[MapKind, ...]
    explanations: tuple[MapKind, ...]
    map_yardsticks: tuple[Yardstick, ...]
    explanation_yardsticks: tuple[Yardstick, ...]

    @classmethod
    def of(cls, kinds: Sequence[MapKind], yardsticks: Sequence[Yardstick], *, named: bool) -> "Contest":
        """Pair maps with yardsticks; what no yardstick judges is left out, or rejected if it was chosen by name."""
        maps, explanations = (tuple(kind for kind in kinds if kind.explains_output is of) for of in (False, True))
        of_maps, of_outputs = (tuple(one for one in yardsticks if one.judges_explanations is of) for of in (False, True))
        chosen, judges = ([[one.name for one in some] for some in both] for both in ((maps, explanations), (of_maps, of_outputs)))
        check_pairs(chosen, judges, named=named)
        return cls(maps if of_maps else (), explanations if of_outputs else (), of_maps, of_outputs)


@dataclass(frozen=True, eq=False)
class TextScores:
    """The scores of maps on one text, NaN where one is undefined or unsupported."""

    scores: Mapping[str, np.ndarray]
    """`score`, and further scores by name: each (map yardstick layer)."""
    explanation_scores: Mapping[str, np.ndarray]
    """The same of explanations: each (explanation explanation_yardstick)."""
    equal_to_raw: np.ndarray  # (map layer)
    tokens: int
    rank: np.ndarray  # (layer)
    """The smallest rank of the values of a head: in texts with no more tokens, effective attention equals raw attention."""
    unsupported: Mapping[str, str]
    """Maps and yardsticks that the model does not support, with the reason."""
    counts: Mapping[str, int]
    """What yardsticks count besides scores, by "yardstick/name"."""


def judge(passage: Passage, contest: Contest) -> TextScores:
    """Score each map by each yardstick that judges maps, and each explanation by each that judges explanations."""
    unsupported: dict[str, str] = {}

    def attempt(name: str, call: Callable[[], Any]) -> Any:
        """The result of a call; None, with the reason noted, if the model does not support it."""
        try:
            return call()
        except UnsupportedModelError as error:
            unsupported[name] = str(error)
            return None

    yardsticks = (*contest.map_yardsticks, *contest.explanation_yardsticks)
    truths = {one.name: attempt(one.name, partial(one.truth, passage)) for one in yardsticks}
    counts = {
        f"{one.name}/{what}": count
        for one in yardsticks
        if one.counts is not None and truths[one.name] is not None
        for what, count in one.counts(truths[one.name]).items()
    }
    raw = MAPS["raw"].compute(passage)
    equal = np.zeros((len(contest.maps), len(raw)), bool)

    def score(
        kinds: Sequence[MapKind], judges: Sequence[Yardstick], others: Sequence[str], *layers: int
    ) -> dict[str, np.ndarray]:
        scores = {name: np.full((len(kinds), len(judges), *layers), np.nan) for name in ("score", *others)}
        for row, kind in enumerate(kinds):
            # Explanations may be computed from a map. Otherwise one map at a time is kept: all of them may not fit.
            computed = attempt(kind.name, partial(kind.scores if contest.explanations else kind.compute, passage))
            if computed is None:
                continue
            if not kind.explains_output:
                equal[row] = _equal(computed, raw)
            for column, one in enumerate(judges):
                truth, again = truths[one.name], None if isinstance(kind, ArrayMap) else kind
                call = partial(one.judge, truth, computed, again)
                judged = None if truth is None else attempt(f"{kind.name} on {one.name}", call)
                if judged is None:
                    continue
                scores["score"][row, column] = judged
                for other, measure in one.other_scores.items():
                    if other not in OF_SIGNED_MAPS or kind.signed:
                        scores[other][row, column] = measure(truth, computed)
        return scores

    scores = score(contest.maps, contest.map_yardsticks, OTHER_SCORES, len(raw))
    explained = score(contest.explanations, contest.explanation_yardsticks, OTHER_EXPLANATION_SCORES)
    rank = [int(numerical_rank(layer.transmitted_values(), layer.values.dtype).min()) for layer in passage.layers]
    return TextScores(scores, explained, equal, len(passage.tokens), np.array(rank), unsupported, counts)


def _equal(scores: Tensor, raw: Tensor) -> np.ndarray:
    """For each layer, whether a map is raw attention up to rounding errors."""
    difference = torch.nan_to_num(scores - raw, nan=torch.inf).abs().amax((1, 2))
    return (difference <= SAME * raw.amax((1, 2))).numpy()
