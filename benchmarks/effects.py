"""The effects of all attention weights on an output, and exact removals of single ones, over a forward pass."""

import torch

import identiformer as idf
from benchmarks.harness import bare_pass, report, side_by_side
from benchmarks.prose import prose
from identiformer.measures.effects.effects import Effects
from identiformer.measures.effects.exact import Exact
from identiformer.measures.effects.levels import Weight
from identiformer.measures.heads.heads import Heads

REMOVALS = 240
"""Weights drawn uniformly over layer, query and key."""


def run() -> None:
    first_order("minilm", 155, "The letter thanked them.")
    first_order("smollm2", 200, "next")
    removals("minilm", 155, 0.7)
    removals("smollm2", 200, 0.35)


def first_order(name: str, length: int, target: str) -> None:
    """The effects of all weights of all heads on one number."""
    model = idf.load(name)
    text = prose(model.tokenizer, length)
    passage = idf.Passage.of(model, text)
    heads = Heads.of(passage)
    passage.objective(target)

    def ours() -> None:
        again = idf.Passage.of(model, text, trace=passage.trace)
        again.memo.keep(("objective", target), passage.objective(target))
        effects = Effects.of(again, target)
        for head in heads:
            effects.of_head(head, heads.rows)

    times = side_by_side({"ours": ours, "forward": bare_pass(model, text)}, 3)
    report(f"{name}: effects of all weights on one number, {length} tokens", times["ours"] / times["forward"], 3, True)


def removals(name: str, length: int, limit: float) -> None:
    """Single weights removed one at a time, against a forward pass for each."""
    model = idf.load(name)
    text = prose(model.tokenizer, length)
    passage = idf.Passage.of(model, text)
    heads, effects = Heads.of(passage), Effects.of(passage, draws=1)
    exact, generator = Exact.of(effects, heads), torch.Generator().manual_seed(0)
    visible, chosen = passage.visible, []
    while len(chosen) < REMOVALS:
        layer, query, key = (int(torch.randint(size, (1,), generator=generator)) for size in visible.shape)
        if visible[layer, query, key]:
            chosen.append(Weight(layer + 1, len(chosen) % len(heads.heads), query, key))

    def ours() -> None:
        exact.known.clear()
        exact.remove(chosen)

    times = side_by_side({"ours": ours, "forward": bare_pass(model, text)}, 1)
    report(f"{name}: one exact removal, {length} tokens", times["ours"] / REMOVALS / times["forward"], limit, True)
