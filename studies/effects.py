"""Do first-order effects predict what removing an attention weight does, and how much attention is idle, by four orders.

Weights of at least 0.02 are drawn at random and removed one at a time; the score is Spearman's correlation, over the weights of a
text, of the size of what that does with the size of each map.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr

import identiformer as idf
from identiformer.equations import contributions, layer_contributions
from identiformer.measures.effects.effects import Effects
from identiformer.measures.effects.exact import Exact
from identiformer.measures.effects.idle import ORDERS
from identiformer.measures.effects.levels import Weight
from identiformer.measures.heads.heads import Heads
from identiformer.passage import Passage
from identiformer.trace import RecordedLayer
from studies.tables import Row, column, markdown
from studies.texts import read_texts

LARGE, WEIGHTS = 0.02, 80
MAPS = ("effect", "raw", "norm", "contribution", "layer_contribution", "effective")
TARGETS = {True: ("output", "next", "logit"), False: ("embedding", "hidden")}
"""Of models that predict tokens, and of others; "logit" is that of the most probable token minus that of the second."""


def measure(name: str, data: Path, pairs: int) -> Iterator[Row]:
    """One row per text and target: the correlation of each map with exact effects, and the idle share by each order."""
    model = idf.load(name)
    for number, example in enumerate(read_texts(model, data, pairs)):
        passage = Passage.of(model, example.text, example.pair, truncate=True, seed=number)
        for target in TARGETS[model.network.get_output_embeddings() is not None]:
            chosen = _second(passage) if target == "logit" else target
            scores = _correlations(passage, chosen, number)
            idle = idf.idle_attention(model, passage, target=chosen, orders=ORDERS)
            shares = {f"idle_{order}": float(idle.share.sel(order=order)) for order in ORDERS}
            changes = {"change": float(idle.change.sel(order="effect")), "matched_change": float(idle.matched_change)}
            yield {"text": number, "tokens": len(passage.tokens), "target": target, **scores, **shares, **changes}


def _second(passage: Passage) -> tuple[str, str]:
    """The two most probable next tokens, as they are written."""
    with torch.no_grad():
        logits = passage.model.network(**passage.batch.inputs).logits[0, -1]
    first, second = (passage.model.tokenizer.decode([token]) for token in logits.topk(2).indices.tolist())
    return first.removeprefix(" "), second.removeprefix(" ")


def _correlations(passage: Passage, target: Any, seed: int) -> dict[str, float]:
    heads, effects = Heads.of(passage), Effects.of(passage, target)
    generator = np.random.default_rng(seed)
    sizes = {name: [] for name in MAPS}
    exact, chosen, values = Exact.of(effects, heads), [], []
    layers = [heads.layer(number) for number in heads.layers]
    candidates = [torch.nonzero((layer.weights >= LARGE) & (layer.weights < 1)) for layer in layers]
    ends = np.cumsum([len(found) for found in candidates])
    for place in np.sort(generator.choice(ends[-1], min(WEIGHTS, int(ends[-1])), replace=False)).tolist():
        index = int(np.searchsorted(ends, place, side="right"))
        chosen.append(Weight(layers[index].number, *candidates[index][place - ends[index]].tolist()))
    for layer in layers:
        members = [weight for weight in chosen if weight.layer == layer.number]
        if members:
            maps = {"effect": _effects(heads, effects, layer, members), **_maps(layer)}
            for name, found in maps.items():
                sizes[name] += [abs(float(found[_at(name, weight)])) for weight in members]
            values += members
    measured = np.abs(exact.remove(values))
    return {name: float(spearmanr(measured, sizes[name])[0]) for name in MAPS}


def _at(name: str, weight: Weight) -> tuple[int, ...]:
    return weight[2:] if name == "layer_contribution" else weight[1:]


def _effects(heads: Heads, effects: Effects, layer: RecordedLayer, members: list[Weight]) -> torch.Tensor:
    found = torch.zeros(layer.weights.shape, dtype=torch.float64)
    for head in layer.every_head(sorted({weight.head for weight in members})):
        found[head.head] = effects.of_head(head, heads.rows)
    return found


def _maps(layer: RecordedLayer) -> dict[str, torch.Tensor]:
    """The maps of the field, which need no gradient."""
    weights, values, projection = layer.weights.double(), layer.values.double(), layer.projection
    projected = None if projection is None else projection.double()
    repeated = values.repeat_interleave(len(weights) // len(values), 0)
    written = repeated if projected is None else repeated @ projected
    return {
        "raw": weights,
        "norm": weights * written.norm(dim=-1)[:, None],
        "contribution": contributions(weights, values, projected),
        "layer_contribution": layer_contributions(weights, values, projected),
        "effective": torch.stack(
            [idf.equations.effective_attention(weights[head], repeated[head], layer.visible) for head in range(len(weights))]
        ),
    }


def report(measured: dict[str, list[Row]], _: Path) -> str:
    """One line per model and target: medians over texts."""
    lines = []
    for model, rows in measured.items():
        for target in dict.fromkeys(str(row["target"]) for row in rows):
            texts = [row for row in rows if row["target"] == target]
            cells = [model, target, str(len(texts)), f"{np.median(column(texts, 'tokens')):.0f}"]
            cells += [f"{np.median(column(texts, name)):.3f}" for name in MAPS]
            cells += [f"{np.median(column(texts, f'idle_{order}')):.1%}" for order in ORDERS]
            ratio = column(texts, "change") / column(texts, "matched_change")
            lines.append([*cells, f"{np.median(ratio):.3f}"])
    header = ("model", "target", "texts", "tokens (median)", *(name.replace("_", " ") for name in MAPS))
    return markdown((*header, *(f"idle by {order}" for order in ORDERS), "change / matched"), lines)
