"""Effective attention of all heads and layers of MiniLM against the model's own eager forward pass."""

import torch

import identiformer as idf
from benchmarks.harness import report, side_by_side
from benchmarks.prose import prose
from identiformer.equations import effective_attention


def run() -> None:
    model = idf.load("minilm")
    text = prose(model.tokenizer, 256)
    trace = model.trace(text)
    model.network.set_attn_implementation("eager")
    inputs = model.tokenizer(text, return_tensors="pt")

    def forward() -> None:
        with torch.no_grad():
            model.network(**inputs)

    def matrices() -> list[tuple[torch.Tensor, torch.Tensor]]:
        answers = []
        for layer in trace.part().layers:
            assert layer.weights is not None
            effective = effective_attention(layer.weights, layer.values, layer.visible)
            answers.append((effective, layer.weights - effective))
        return answers

    sides = {"forward": forward, "matrices": matrices, "all": lambda: idf.effective_attention(trace)}
    times = side_by_side(sides, 30)
    detail = f"(forward {times['forward'] * 1e3:.0f} ms, {len(trace.tokens)} tokens)"
    report("minilm: effective and null matrices over a forward pass", times["matrices"] / times["forward"], 0.35, True, detail)
    report("minilm: with all summaries, as a Dataset", times["all"] / times["forward"], 0.5, True)
