"""Yardsticks of sanity: a map of a model must change when the model's weights are random (Adebayo et al. 2018)."""

import torch
from torch import Tensor

from identiformer.equations.attribution.agreement import row_rank_correlation
from identiformer.measures.faithfulness.yardstick import Yardstick
from identiformer.measures.maps.kind import MapKind
from identiformer.models.interventions.random_weights import with_random_weights
from identiformer.passage import Passage

SEEDS = (0, 1)
Recomputed = tuple[list[Tensor], Tensor]
"""A map as computed on models with random weights, and which of its scores are compared; explanations are maps of one row."""


def _random_models(passage: Passage) -> list[Passage]:
    """The text as models with random weights read it, one per seed."""

    def read() -> list[Passage]:
        return [passage.read_by(with_random_weights(passage.model, seed)) for seed in SEEDS]

    return passage.once("random weights", read)


def _recomputed(passages: list[Passage], kind: MapKind) -> Recomputed:
    compared = ~torch.tensor([passages[0].tokens.special]) if kind.explains_output else passages[0].visible
    return [torch.atleast_2d(kind.compute(passage)) for passage in passages], compared


def _change(recomputed: Recomputed, scores: Tensor) -> Tensor:
    """1 - |ρ|: Spearman's rank correlation of |scores| with those of random weights, its mean over rows and seeds."""
    others, compared = recomputed
    correlations = [row_rank_correlation(torch.atleast_2d(scores).abs(), other.abs(), compared) for other in others]
    return 1 - torch.stack(correlations).abs().nanmean(0).nanmean(-1)


RANDOM_WEIGHTS = tuple(
    Yardstick(
        name=name,
        title=title,
        question=f"Does the {what} change when the model's weights are random?",
        paper="Adebayo et al. (2018)",
        truth=_random_models,
        score=_change,
        judges_explanations=what == "explanation",
        for_kind=_recomputed,
        cost="2 times that of the map",
    )
    for name, title, what in (
        ("random_weights", "change with random weights", "map"),
        ("random_weights_output", "explanation's change with random weights", "explanation"),
    )
)
