"""Yardsticks that remove something inside the model: the values of a token, or edges of attention.

Three removals are different ground truths. Zeroing a value takes away what it writes, and nothing else. Replacing it by the mean
value of the text leaves hidden states closer to those that the model knows; Wang et al. (2023) take the mean over a reference
distribution of texts instead. Knocking out an edge with renormalization does what the softmax does without it, as in Geva et al.
(2023), who mask the edge before the softmax: the other keys receive its weight. Knocking it out without renormalization changes
the layer's output as zeroing the value does.
"""

from collections.abc import Callable

import torch

from identiformer.equations.attention.removal import average_values, knock_out_edges, zero_values
from identiformer.measures.faithfulness.scores import OTHER_SCORES, Effects, pearson
from identiformer.measures.faithfulness.yardstick import Yardstick
from identiformer.models.interventions.output_effects import output_effects
from identiformer.models.interventions.removal import Remove, layer_effects
from identiformer.passage import Passage
from identiformer.progress import work_bar

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


def _of_layers(passage: Passage, name: str) -> Effects:
    """1 - cos of the layer's output with and without each key."""
    numbers = range(1, len(passage.layers) + 1)
    with work_bar(name, False) as bar:
        effects = layer_effects(passage.model, passage.batch, numbers, bar, REMOVALS[name][0])
    return Effects(torch.stack([effects[number] for number in numbers]), _defined(passage, name))


def _of_heads(passage: Passage, name: str) -> Effects:
    """‖o_i' - o_i‖/‖o_i‖ of the head outputs after the output projection: its mean over heads."""
    removals = [(REMOVALS[name][0](layer.weights, layer.values, layer.sink), layer.projection) for layer in passage.layers]
    size = torch.stack([removal.relative_changes(projection).nanmean(0) for removal, projection in removals])
    return Effects(size, _defined(passage, name))


def _of_output(passage: Passage, name: str) -> Effects:
    """The change of the model's output at the query, without the key's value for all queries or without one edge."""
    numbers, edges = range(1, len(passage.layers) + 1), name.startswith("edge")
    remove = REMOVALS[name][0]
    effects = output_effects(passage.model, passage.batch, numbers, remove, edges=edges)
    return Effects(torch.stack([effects[number] for number in numbers]), _defined(passage, name))


def _defined(passage: Passage, name: str) -> torch.Tensor:
    """The pairs that are visible, and that can be removed in every head."""
    remove = REMOVALS[name][0]
    factors = [remove(layer.weights, layer.values, layer.sink).factor for layer in passage.layers]
    return passage.visible & torch.stack([factor.isfinite().all(0) for factor in factors])


def _words(truth: Effects, passage: Passage) -> Effects:
    """Effects of words only: special tokens receive much attention, and little depends on them."""
    return Effects(truth.size, truth.counted & ~torch.tensor(passage.tokens.special))


def _others(truth: Effects, _: Passage) -> Effects:
    """Effects of other tokens only.

    Maps with the residual connection put most weight on the token itself, and removing attention does not remove what the
    residual connection carries.
    """
    return Effects(truth.size, truth.counted & ~torch.eye(truth.size.shape[-1], dtype=torch.bool))


SITES: dict[str, tuple[Callable[[Passage, str], Effects], str, str, str]] = {
    "": (_of_layers, "layer output", "does the layer's output turn", "1 per token"),
    "_head": (_of_heads, "head outputs", "do the outputs of the heads change", "1"),
    "_output": (_of_output, "model output", "does the model's output at the query change", ""),
}


VARIANTS: dict[str, tuple[str, Callable[[Effects, Passage], Effects]]] = {
    "": ("", lambda truth, _: truth),
    "_words": (", words only", _words),
    "_others": (", other tokens only", _others),
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
        effects = passage.once(f"{computed}{site}", lambda: measure(passage, computed))
        return select(effects, passage)

    return Yardstick(
        name=f"{name}{site}{variant}",
        title=f"{title}, {where}{sources}",
        question=f"How much {change} {done}{sources}?",
        paper=PAPERS.get(name, OURS),
        truth=truth,
        score=pearson,
        other_scores=OTHER_SCORES,
        cheap=site != "_output",
        cost=cost or f"layers/2 per {'pair of tokens' if name.startswith('edge') else 'token'}",
        same_as=None if computed == name else f"{computed}{site}{variant}",
    )


REMOVAL_INSIDE = tuple(_yardstick(name, site, variant) for name in REMOVALS for site in SITES for variant in VARIANTS)
