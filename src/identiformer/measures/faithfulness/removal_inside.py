"""Yardsticks that remove something inside the model: the values of a token, or edges of attention.

Three removals are different ground truths. Zeroing a value takes away what it writes, and nothing else. Replacing it by the mean
value of the text leaves hidden states closer to those that the model knows; Wang et al. (2023) take the mean over a reference
distribution of texts instead. Knocking out an edge with renormalization does what the softmax does without it, as in Geva et al.
(2023), who mask the edge before the softmax: the other keys receive its weight. Knocking it out without renormalization changes
the layer's output as zeroing the value does.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from identiformer.equations.attention.removal import average_values, knock_out_edges, zero_values
from identiformer.equations.attribution.agreement import row_correlation, row_ranks
from identiformer.measures.faithfulness.yardstick import Yardstick
from identiformer.measures.maps.effects import effects_on_layers
from identiformer.models.interventions.output_effects import output_effects
from identiformer.models.interventions.removal import Remove
from identiformer.passage import Passage

Map = Float[Tensor, "layer query key"]
Selection = Callable[[Passage], Bool[Tensor, "*#query key"]]

REMOVALS: dict[str, tuple[Remove, str, str]] = {
    "value_zeroing": (zero_values, "value zeroing", "if one token's values are set to zero"),
    "value_mean": (average_values, "value mean-ablation", "if one token's values are set to the mean over the text's tokens"),
    "edge_knockout": (zero_values, "edge knockout", "if one attention edge is removed"),
    "edge_knockout_renormalized": (
        knock_out_edges,
        "renormalized edge knockout",
        "if one attention edge is removed and its row renormalized",
    ),
}
PAPERS = {"value_zeroing": "Mohebbi et al. (2023)", "edge_knockout_renormalized": "Geva et al. (2023)"}
OURS = "ours"
"""Of removals that no paper defines in this form."""


@dataclass(frozen=True, eq=False)
class Effects:
    """Measured effects of each key on each query, and which of them are counted."""

    size: Map
    counted: Bool[Tensor, "layer query key"]

    @cached_property
    def ranks(self) -> Map:
        """The rank of each counted effect in its row: computed once for all maps."""
        return row_ranks(self.size, self.counted)


def _pearson(truth: Effects, scores: Map) -> Float[Tensor, " layer"]:
    """Pearson's correlation of |scores| with effects over the counted keys of each row: its mean over rows."""
    return row_correlation(truth.size, scores.abs(), truth.counted).nanmean(-1)


def _spearman(truth: Effects, scores: Map) -> Float[Tensor, " layer"]:
    """Spearman's correlation of |scores| with effects over the counted keys of each row: its mean over rows."""
    return row_correlation(truth.ranks, row_ranks(scores.abs(), truth.counted), truth.counted).nanmean(-1)


def _signed(truth: Effects, scores: Map) -> Float[Tensor, " layer"]:
    """Pearson's correlation of effects with the scores themselves, so that a negative score predicts a smaller effect than 0."""
    return row_correlation(truth.size, scores, truth.counted).nanmean(-1)


def _of_layers(passage: Passage, name: str) -> Map:
    """1 - cos of the layer's output with and without each key."""
    return effects_on_layers(passage, REMOVALS[name][0])


def _of_heads(passage: Passage, name: str) -> Map:
    """‖o_i' - o_i‖/‖o_i‖ of the head outputs after the output projection: its mean over heads."""
    removals = [(REMOVALS[name][0](layer.weights, layer.values, layer.sink), layer.projection) for layer in passage.layers]
    return torch.stack([removal.relative_changes(projection).nanmean(0) for removal, projection in removals])


def _of_output(passage: Passage, name: str) -> Map:
    """The change of the model's output at the query, without the key's value for all queries or without one edge."""
    numbers, edges = range(1, len(passage.layers) + 1), name.startswith("edge")
    effects = output_effects(passage.model, passage.batch, numbers, REMOVALS[name][0], edges=edges)
    return torch.stack([effects[number] for number in numbers])


def _measured(passage: Passage, name: str, measure: Callable[[Passage, str], Map]) -> Effects:
    """The effects of one removal, of pairs that are visible and that can be removed in every head."""
    size, remove = measure(passage, name), REMOVALS[name][0]
    factors = [remove(layer.weights, layer.values, layer.sink).factor for layer in passage.layers]
    return Effects(size, passage.visible & torch.stack([factor.isfinite().all(0) for factor in factors]))


SITES: dict[str, tuple[Callable[[Passage, str], Map], str, str, str]] = {
    "": (_of_layers, "layer output", "does the layer's output turn", "1 per token"),
    "_head": (_of_heads, "head outputs", "do the outputs of the heads change", "1"),
    "_output": (_of_output, "model output", "does the model's output at the query change", ""),
}
VARIANTS: dict[str, tuple[str, Selection | None]] = {
    "": ("", None),
    # Special tokens receive much attention, and little depends on them.
    "_words": (", words only", lambda passage: ~torch.tensor(passage.tokens.special)),
    # Maps with the residual connection put most weight on the token itself, and removing attention does not remove what the
    # residual connection carries.
    "_others": (", other tokens only", lambda passage: ~torch.eye(passage.visible.shape[-1], dtype=torch.bool)),
}
"""Which sources are counted."""


def _yardstick(name: str, site: str, variant: str) -> Yardstick:
    measure, where, change, cost = SITES[site]
    _, title, done = REMOVALS[name]
    sources, select = VARIANTS[variant]
    # At the output of a layer both remove what the key writes to the query; at the output of the model they differ, because
    # other queries lose a zeroed value too.
    computed = "value_zeroing" if name == "edge_knockout" and site != "_output" else name

    def truth(passage: Passage) -> Effects:
        effects = passage.once(f"{computed}{site}", lambda: _measured(passage, computed, measure))
        return effects if select is None else Effects(effects.size, effects.counted & select(passage))

    return Yardstick(
        name=f"{name}{site}{variant}",
        title=f"{title}, {where}{sources}",
        question=f"How much {change} {done}{sources}?",
        paper=PAPERS.get(name, OURS),
        truth=truth,
        score=_pearson,
        other_scores={"spearman": _spearman, "signed": _signed},
        cheap=site != "_output",
        cost=cost or f"layers/2 per {'pair of tokens' if name.startswith('edge') else 'token'}",
        same_as=None if computed == name else f"{computed}{site}{variant}",
    )


REMOVAL_INSIDE = tuple(_yardstick(name, site, variant) for name in REMOVALS for site in SITES for variant in VARIANTS)
