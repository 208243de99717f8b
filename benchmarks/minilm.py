"""MiniLM's own eager forward pass against a batch of traces, and against effective attention of all heads and layers."""

import copy
from typing import Any

import torch

import identiformer as idf
from benchmarks.harness import bare_pass, report, side_by_side
from benchmarks.prose import prose
from identiformer.equations import effective_attention

TEXTS, TOKENS = 32, 128


def batch_of_traces(model: idf.Model) -> None:
    """Many texts in one padded batch, split into single traces, against the same batch with the weights asked for."""
    short = model.limited(TOKENS)
    texts = [prose(model.tokenizer, 2 * TOKENS, skip=1000 * number) for number in range(TEXTS)]
    inputs = model.tokenizer(texts, return_tensors="pt", padding=True, truncation=True, max_length=TOKENS)
    eager = copy.deepcopy(model.network)
    eager.set_attn_implementation("eager")

    def forward() -> Any:
        with torch.no_grad():
            return eager(**inputs, output_attentions=True)

    times = side_by_side({"forward": forward, "trace": lambda: short.trace(texts, truncate=True)}, 7)
    detail = f"(forward {times['forward']:.2f} s, {TEXTS} texts of {inputs['input_ids'].shape[1]} tokens)"
    report("minilm: traces of a batch over its forward pass", times["trace"] / times["forward"], 1.2, True, detail)


def run() -> None:
    model = idf.load("minilm")
    batch_of_traces(model)
    text = prose(model.tokenizer, 256)
    trace = model.trace(text)
    model.network.set_attn_implementation("eager")

    def matrices() -> list[tuple[torch.Tensor, torch.Tensor]]:
        answers = []
        for layer in trace.stack().layers:
            effective = effective_attention(layer.weights, layer.values, layer.visible)
            answers.append((effective, layer.weights - effective))
        return answers

    sides = {"forward": bare_pass(model, text), "matrices": matrices, "all": lambda: idf.effective_attention(trace)}
    times = side_by_side(sides, 30)
    detail = f"(forward {times['forward'] * 1e3:.0f} ms, {len(trace.tokens)} tokens)"
    report("minilm: effective and null matrices over a forward pass", times["matrices"] / times["forward"], 0.35, True, detail)
    report("minilm: with all summaries, as a Dataset", times["all"] / times["forward"], 0.5, True)
