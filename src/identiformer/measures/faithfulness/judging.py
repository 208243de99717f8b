"""Judge maps of one text by yardsticks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
    return _Judge(passage, contest).result()


class _Judge:
    """The truths of one text, and the reasons why some are not defined for the model."""

    def __init__(self, passage: Passage, contest: Contest) -> None:
        self._passage, self._contest = passage, contest
        self._unsupported: dict[str, str] = {}
        yardsticks = (*contest.map_yardsticks, *contest.explanation_yardsticks)
        truths = {one.name: self._attempt(one.name, lambda one=one: one.truth(passage)) for one in yardsticks}
        self._truths = {name: truth for name, truth in truths.items() if truth is not None}
        self._counts = {
            f"{one.name}/{what}": count
            for one in yardsticks
            if one.counts is not None and one.name in self._truths
            for what, count in one.counts(self._truths[one.name]).items()
        }

    def _attempt(self, name: str, call: Callable[[], Any]) -> Any:
        """The result of a call; None, with the reason noted, if the model does not support it."""
        try:
            return call()
        except UnsupportedModelError as error:
            self._unsupported[name] = str(error)
            return None

    def result(self) -> TextScores:
        contest, passage = self._contest, self._passage
        raw = MAPS["raw"].compute(passage)
        shape = (len(contest.maps), len(contest.map_yardsticks), len(raw))
        scores = {name: np.full(shape, np.nan) for name in ("score", *OTHER_SCORES)}
        equal = np.zeros((len(contest.maps), len(raw)), bool)
        for row, kind in enumerate(contest.maps):
            # Explanations may be computed from a map. Otherwise one map at a time is kept: all of them may not fit.
            compute = kind.scores if contest.explanations else kind.compute
            computed = self._attempt(kind.name, lambda compute=compute: compute(passage))
            if computed is not None:
                equal[row] = _equal(computed, raw)
                self._fill(scores, row, kind, computed, contest.map_yardsticks)
        shape = (len(contest.explanations), len(contest.explanation_yardsticks))
        explained = {name: np.full(shape, np.nan) for name in ("score", *OTHER_EXPLANATION_SCORES)}
        for row, kind in enumerate(contest.explanations):
            computed = self._attempt(kind.name, lambda kind=kind: kind.scores(passage))
            if computed is not None:
                self._fill(explained, row, kind, computed, contest.explanation_yardsticks)
        rank = [int(numerical_rank(layer.transmitted_values(), layer.values.dtype).min()) for layer in passage.layers]
        tokens = len(passage.tokens)
        return TextScores(scores, explained, equal, tokens, np.array(rank), self._unsupported, self._counts)

    def _fill(
        self, scores: dict[str, np.ndarray], row: int, kind: MapKind, computed: Tensor, yardsticks: Sequence[Yardstick]
    ) -> None:
        """Write the scores of one map into its row."""
        for column, one in enumerate(yardsticks):
            if one.name not in self._truths:
                continue
            truth, again = self._truths[one.name], None if isinstance(kind, ArrayMap) else kind
            name = f"{kind.name} on {one.name}"
            judged = self._attempt(name, lambda one=one, truth=truth, again=again: one.judge(truth, computed, again))
            if judged is None:
                continue
            scores["score"][row, column] = judged
            for other, score in one.other_scores.items():
                if other not in OF_SIGNED_MAPS or kind.signed:
                    scores[other][row, column] = score(truth, computed)


def _equal(scores: Tensor, raw: Tensor) -> np.ndarray:
    """For each layer, whether a map is raw attention up to rounding errors."""
    difference = torch.nan_to_num(scores - raw, nan=torch.inf).abs().amax((1, 2))
    return (difference <= SAME * raw.amax((1, 2))).numpy()
