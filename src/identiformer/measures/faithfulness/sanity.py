"""Yardsticks of sanity: a map of a model must change when the model's weights are random (Adebayo et al. 2018)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from identiformer.equations.attribution.agreement import row_rank_correlation
from identiformer.measures.faithfulness.yardstick import Yardstick
from identiformer.measures.maps.kind import MapKind
from identiformer.models.interventions.random_weights import with_random_weights
from identiformer.passage import Passage

SEEDS = (0, 1)


@dataclass(frozen=True, eq=False)
class Comparison:
    """A map as computed on models with random weights, and which of its scores are compared."""

    maps: list[Tensor]
    compared: Tensor


def _random_models(passage: Passage) -> list[Passage]:
    """The text as models with random weights read it, one per seed."""

    def read() -> list[Passage]:
        return [passage.read_by(with_random_weights(passage.model, seed)) for seed in SEEDS]

    return passage.once("random weights", read)


def _pairs(passages: list[Passage], kind: MapKind) -> Comparison:
    return Comparison([kind.compute(passage) for passage in passages], passages[0].visible)


def _tokens(passages: list[Passage], kind: MapKind) -> Comparison:
    regular = ~torch.tensor(passages[0].tokens.special)
    return Comparison([kind.compute(passage)[None] for passage in passages], regular[None])


def _change(comparison: Comparison, scores: Tensor) -> Tensor:
    """1 - |ρ|: Spearman's rank correlation of |scores| with those of random weights, its mean over rows and seeds."""
    correlations = [row_rank_correlation(scores.abs(), other.abs(), comparison.compared) for other in comparison.maps]
    return 1 - torch.stack(correlations).abs().nanmean(0).nanmean(-1)


def _token_change(comparison: Comparison, scores: Tensor) -> Tensor:
    return _change(comparison, scores[None]).reshape(())


RANDOM_WEIGHTS = Yardstick(
    name="random_weights",
    title="change with random weights",
    question="Does the map change when the model's weights are random?",
    paper="Adebayo et al. (2018)",
    truth=_random_models,
    score=_change,
    for_kind=_pairs,
    cost="2 times that of the map",
)
RANDOM_WEIGHTS_OUTPUT = Yardstick(
    name="random_weights_output",
    title="explanation's change with random weights",
    question="Does the explanation change when the model's weights are random?",
    paper="Adebayo et al. (2018)",
    truth=_random_models,
    score=_token_change,
    judges_explanations=True,
    for_kind=_tokens,
    cost="2 times that of the map",
)
