"""Rollout and flow: explanations of the output made of a map of each layer."""

from collections.abc import Callable
from functools import partial

from torch import Tensor

from identiformer.equations.maps.rollout import attention_flow, attention_rollout, layer_mixing
from identiformer.errors import UnsupportedModelError
from identiformer.measures.maps.kind import MapKind
from identiformer.passage import Passage

PAPER = "Abnar and Zuidema (2020)"


def _mixing(kind: MapKind, passage: Passage) -> Tensor:
    scores = kind.scores(passage)
    if scores.shape[-1] != scores.shape[-2]:
        raise UnsupportedModelError(
            f"expected a map of positions to positions to combine its layers, got {scores.shape[-2]} queries and "
            f"{scores.shape[-1]} keys."
        )
    return layer_mixing(scores, add_residual=not kind.has_residual)


def _rollout(kind: MapKind, passage: Passage) -> Tensor:
    return attention_rollout(_mixing(kind, passage))[list(passage.target.positions)].mean(0)


def _flow(kind: MapKind, passage: Passage) -> Tensor:
    return attention_flow(_mixing(kind, passage), passage.target.positions)


def rollout_of(kind: MapKind) -> MapKind:
    """The explanation that multiplies the maps of all layers."""
    return MapKind(
        name=f"rollout:{kind.name}",
        title=f"rollout of {kind.title}",
        formula=f"Ã_L ⋯ Ã_1, {_capacities(kind)}; mean over the target's positions",
        paper=PAPER,
        cost=kind.cost,
        compute=partial(_rollout, kind),
        needs=kind.needs,
        cheap=kind.cheap,
        explains_output=True,
    )


def flow_of(kind: MapKind) -> MapKind:
    """The explanation that finds the maximum flow through the maps of all layers."""
    return MapKind(
        name=f"flow:{kind.name}",
        title=f"flow through {kind.title}",
        formula=f"maximum flow from the target's positions to each token, {_capacities(kind)}",
        paper=PAPER,
        cost=f"{kind.cost}, and a maximum flow per token",
        compute=partial(_flow, kind),
        needs=kind.needs,
        cheap=False,
        explains_output=True,
    )


def _capacities(kind: MapKind) -> str:
    return "Ã = |S| with rows of 1" if kind.has_residual else "Ã = ½|S| + ½I with rows of 1"


COMPOSED: dict[str, Callable[[MapKind], MapKind]] = {"rollout": rollout_of, "flow": flow_of}
