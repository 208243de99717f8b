"""Idle attention: the largest share of a text's attention that can be removed everywhere at once within a budget of change."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from identiformer.equations.effects.idle import Idle, largest_within_budget
from identiformer.errors import InputError
from identiformer.measures.effective import check_budget
from identiformer.measures.effects.effects import DRAWS, Effects
from identiformer.measures.effects.levels import Levels, Score
from identiformer.measures.heads.heads import REMEDY, Heads
from identiformer.measures.heads.table import token_coordinates
from identiformer.models import Model
from identiformer.models.interventions.joint_removal import JointRemoval
from identiformer.models.objective import OutputTarget
from identiformer.names import check_name
from identiformer.passage import Passage
from identiformer.results import describe
from identiformer.trace import RecordedHead

ORDERS = ("effect", "weight", "norm", "random")
"""The scores by which weights are removed, smallest first."""
HALF_OCTAVES = 2
"""Weights are matched in size within a factor of √2."""


@dataclass(frozen=True, eq=False)
class IdleSet:
    """The idle attention of a passage for one objective, and the runs by which more of it can be measured."""

    heads: Heads
    levels: Levels
    found: Idle
    budget: float
    removal: JointRemoval

    @property
    def removed(self) -> Callable[[int], Tensor]:
        """The idle weights of each layer: bool (head query key)."""
        return self.levels.removed(self.found.level)

    def of_head(self, head: RecordedHead) -> Tensor:
        """The idle weights of one head: bool (query key)."""
        return self.removed(head.layer)[self.heads.heads.index(head.head)]


def idle_set(
    passage: Passage, target: OutputTarget = None, *, budget: float | None = None, draws: int = DRAWS, order: str = "effect"
) -> IdleSet:
    """Find the idle attention of a passage: about ten runs with sets of weights removed, smallest scores first."""
    check_name("an order", order, ORDERS)
    heads = Heads.of(passage, queries=range(len(passage.stack.queries)))
    effects = Effects.of(passage, target, draws)
    allowed = effects.objective.budget if budget is None else budget
    if not 0 < allowed < float("inf"):
        raise InputError(f"expected a positive budget of change, got {allowed}.")

    def compute() -> IdleSet:
        levels = Levels.of(heads, effects, _score(order, effects, heads))
        removal = passage.memo.once((*effects.key, "joint removal"), lambda: _removal(effects, heads))
        found = largest_within_budget(levels.mass, lambda level: removal.change(levels.removed(level)), allowed)
        return IdleSet(heads, levels, found, allowed, removal)

    return passage.once((*effects.key, "idle", order, allowed), compute)


def idle_attention(
    model: Model,
    text: Any,
    pair: str | None = None,
    *,
    target: OutputTarget = None,
    budget: float | None = None,
    orders: Sequence[str] = ("effect", "weight"),
    maps: bool = False,
    draws: int = DRAWS,
    kind: str | None = None,
    truncate: bool = False,
    seed: int = 0,
) -> xr.Dataset:
    """Find how much of the attention in a text is idle: removed everywhere at once, it leaves the output as it is.

    Weights are removed in the order of their effect, the smallest first, as many as the budget allows; the values of all of them
    are removed in one run, in which later layers attend as they then do. It is a statement about this text and this target: what
    is idle for one prediction can matter for another.

    Parameters
    ----------
    model : Model
    text : str, Answer, Tensor, Trace or Passage
        A text, an answer of the model, or an image for a vision model, as in `Model.trace`.
    pair : str, optional
        The second text of a pair.
    target : str, int or tuple of str, optional
        The output that stays as it is, as in `weight_effects`.
    budget : float, optional
        The largest change. By default a divergence of 0.01 nats for one prediction, 0.001 nats per position for several, and a
        distance 1 - cos of 0.001 for an embedding.
    orders : sequence of str
        "effect", and for comparison "weight" (the smallest weights first), "norm" (the smallest a_ij·‖v_j‖) and "random".
    maps : bool
        Whether to return which weights are idle.
    draws, kind, truncate, seed
        As in `weight_effects`.

    Returns
    -------
    xarray.Dataset
        Over order: `share` of the weight that is removed, of all weight that can reach the target in rows that see more than one
        key; `change`, that of the output; and `runs`. `budget`. `matched_change`: the change if other weights are removed,
        matched in layer and size to the idle ones. Over (layer, head): `weight_by_head`, the weight that can reach the target,
        and `share_by_head`, how much of it is idle. With maps, over (layer, head, query, key): `idle`.

    Examples
    --------
    >>> import identiformer as idf
    >>> idle = idf.idle_attention(idf.load("minilm"), "He said that the pie was his.")
    >>> bool(idle.share.sel(order="effect") > idle.share.sel(order="weight"))
    True
    """
    passage = Passage.of(model, text, pair, truncate=truncate, kind=kind, seed=seed)
    names = list(dict.fromkeys(("effect", *orders)))
    found = {order: idle_set(passage, target, budget=budget, draws=draws, order=order) for order in names}
    idle, heads = found["effect"], found["effect"].heads
    if maps:
        check_budget(prod(heads.shape), model.memory, REMEDY)
    shares, weights = share_by_head(idle)
    variables: dict[str, Any] = {
        **{name: ("order", [getattr(found[order].found, name) for order in names]) for name in ("share", "change", "runs")},
        "budget": idle.budget,
        "matched_change": matched_change(idle, seed),
        "share_by_head": (("layer", "head"), shares),
        "weight_by_head": (("layer", "head"), weights),
    }
    coordinates: dict[str, Any] = {"order": names, "layer": heads.layers, "head": heads.heads}
    if maps:
        variables["idle"] = (("layer", "head", "query", "key"), np.stack([idle.removed(layer).numpy() for layer in heads.layers]))
        coordinates |= token_coordinates(heads)
    objective = passage.objective(target)
    settings = {
        "kind": heads.stack.kind, "target": target, "objective": objective.title, "unit": (objective.whole or objective).unit,
        "draws": draws, "seed": seed, "prediction": objective.prediction,
        "probability": None if np.isnan(objective.probability) else objective.probability,
    }  # fmt: skip
    return describe(xr.Dataset(variables, coordinates), "idle_attention", passage.source, settings)


def share_by_head(idle: IdleSet) -> tuple[np.ndarray, np.ndarray]:
    """Of each head, how much of the weight that can reach the target is idle, and that weight."""
    heads, never = idle.heads, idle.levels.removed(2**15)
    shares, weights = np.full((2, len(heads.layers), len(heads.heads)), np.nan)
    for head in heads:
        at, number = (heads.layers.index(head.layer), heads.heads.index(head.head)), heads.heads.index(head.head)
        weight = head.weights.double().cpu()
        weights[at] = float(weight[never(head.layer)[number]].sum())
        shares[at] = float(weight[idle.of_head(head)].sum()) / weights[at] if weights[at] else np.nan
    return shares, weights


def matched_change(idle: IdleSet, seed: int = 0) -> float:
    """The change if as many weights of the same layer and size are removed, chosen at random among idle and other ones."""
    generator = torch.Generator().manual_seed(seed)
    heads = idle.heads

    def matched(number: int) -> Tensor:
        weights, chosen = heads.layer(number).weights.double().cpu(), idle.removed(number)
        places = torch.nonzero(idle.levels.removed(2**15)(number).flatten())[:, 0]
        sizes = (weights.flatten()[places].log2() * HALF_OCTAVES).floor().long()
        sizes -= sizes.amin() if len(sizes) else 0
        counts = torch.bincount(sizes, chosen.flatten()[places].double())
        order = (sizes + torch.rand(len(sizes), generator=generator, dtype=torch.float64)).argsort()  # at random within a size
        members = torch.bincount(sizes)
        rank = torch.arange(len(sizes)) - (members.cumsum(0) - members)[sizes[order]]
        result = torch.zeros_like(chosen)
        result.view(-1)[places[order[rank < counts[sizes[order]]]]] = True
        return result

    return idle.removal.change(matched)


def _score(order: str, effects: Effects, heads: Heads) -> Score:
    """The score of an order."""
    if order == "effect":
        return lambda head: effects.of_head(head, heads.rows)
    if order == "weight":
        return lambda head: head.weights.double().cpu()
    if order == "norm":
        return lambda head: (head.weights * _lengths(head)).double().cpu()
    generator = torch.Generator().manual_seed(effects.passage.seed)
    return lambda head: torch.rand(head.shape, generator=generator, dtype=torch.float64)


def _lengths(head: RecordedHead) -> Tensor:
    """‖v_jH‖ of each key."""
    return (head.values if head.projection is None else head.values @ head.projection).norm(dim=-1)


def _removal(effects: Effects, heads: Heads) -> JointRemoval:
    passage = effects.passage
    return JointRemoval(passage.model, passage.batch, heads.stack.kind, effects.objective)
