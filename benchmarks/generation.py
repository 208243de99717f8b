"""Attribution of generated tokens: time per token against one exact row of the Jacobian, and whether its intervals hold."""

from collections.abc import Callable

import numpy as np
import torch

import identiformer as idf
from benchmarks.harness import report, side_by_side
from benchmarks.prose import prose
from identiformer.models.derivatives.input_function import InputFunction

PROMPT, ANSWER = 200, 60
PART = 4
"""Components of a hidden vector of which the loop takes gradients, scaled to all."""
STEPS = (20, 50)
"""Generated tokens that are attributed per measurement: each pays half of a forward pass, which 60 would share."""
SHORT = (24, 4)
"""Tokens of the prompt and the answer that are also attributed exactly."""


def run() -> None:
    """Report the ratios at the full length, and errors and coverage on a shorter answer."""
    model = idf.load("smollm2")
    answer = model.generate(prose(model.tokenizer, PROMPT), max_new_tokens=ANSWER)
    function = model.input_function(answer, task_head=True)[0]
    times = side_by_side(
        {
            "row": gradients(function, answer.positions[STEPS[0]]),
            "hidden": lambda: idf.answer_attribution(model, answer, method="token_attribution_last", steps=STEPS),
            "logit": lambda: idf.answer_attribution(model, answer, method="gradient_times_input", steps=STEPS),
        },
        rounds=3,
    )
    row = times["row"] * function.widths[-1] / PART
    what = f"smollm2, {answer.start} + {len(answer.probabilities)} tokens, one exact Jacobian row by autograd"
    detail = f"row {row:.0f} s, scaled from {PART} components"
    report(f"{what}, against 16 directions per token", row / (times["hidden"] / len(STEPS)), 15, False, detail)
    report(f"{what}, against gradient × input per token", row / (times["logit"] / len(STEPS)), 15, False)
    errors(model)


def gradients(function: InputFunction, target: int) -> Callable[[], None]:
    """Gradients of a few components of the last hidden vector, one autograd.grad each, after a forward pass that is not timed."""
    change = function.no_change.requires_grad_()
    with torch.enable_grad():
        state = function.run(change).hidden[-1][target]
        components = [state[component] for component in range(PART)]

    def compute() -> None:
        for component in components:
            torch.autograd.grad(component, change, retain_graph=True)

    return compute


def errors(model: idf.Model) -> None:
    """How far 16 directions are from exact shares, and how often their 95% intervals hold these."""
    answer = model.generate(prose(model.tokenizer, SHORT[0]), max_new_tokens=SHORT[1])
    exact = idf.answer_attribution(model, answer, method="token_attribution_last", exact=True).share
    sampled = idf.answer_attribution(model, answer, method="token_attribution_last")
    distance = float((0.5 * np.abs(sampled.share - exact).sum("source")).max())
    stated = float((0.5 * sampled.error.sum("source")).max())
    report("16 directions: largest ½Σ|ĉ-c| of a generated token", distance, 0.05, True, f"stated: {stated:.3f}")
    seen = exact.values > 0
    inside = ((sampled.low <= exact) & (exact <= sampled.high)).values[seen].mean()
    report("16 directions: share of exact contributions inside their 95% interval", float(inside), 0.9, False)
