"""Hidden Token Attribution: exact against the usual loop, against what the machine can do, and directions against exact."""

import time
from pathlib import Path

import numpy as np
import torch

import identiformer as idf
from benchmarks.harness import SHARED, product_rate, report, side_by_side
from benchmarks.prose import prose
from identiformer.models.derivatives.input_function import InputFunction
from identiformer.models.derivatives.jacobian_blocks import MOST_AT_ONCE
from identiformer.models.derivatives.tangents import Pushforward, TorchPushforward, find_pushforward

TOKENS, PART = 40, 8
FEW, SEEDS, TEXTS, SHORT = 3, 20, 5, 20
BESIDE = SHARED / "models" / "gte-small"


def run() -> None:
    minilm, smollm2 = idf.load("minilm"), idf.load("smollm2")
    function = minilm.input_function(prose(minilm.tokenizer, TOKENS))[0]
    against_the_loop(function)
    for label, other in (
        ("BERT-like (minilm)", function),
        ("Llama-like (smollm2)", smollm2.input_function(prose(smollm2.tokenizer, TOKENS))[0]),
    ):
        pushforward = find_pushforward(other, heads=False)
        assert pushforward.name == "analytic"
        share_of_product_rate(f"{label}, {TOKENS} tokens: share of the product rate", other, pushforward, 0.68)
    with torch.no_grad():
        general = TorchPushforward.linearized(function, heads=False)
    share_of_product_rate(f"general path (minilm), {TOKENS} tokens: share of the product rate", function, general, 0.45)
    probes_against_exact(minilm)
    for name in ("minilm", *([str(BESIDE)] if BESIDE.is_dir() else [])):
        coverage(name)


def against_the_loop(function: InputFunction) -> None:
    """A part of either side, scaled: a few components of one target for the loop, one batch of directions for ours."""
    pushforward = find_pushforward(function, heads=False)
    layers, (positions, width) = len(function.widths), function.x.shape

    def loop() -> None:
        change = function.no_change.requires_grad_()
        with torch.enable_grad():
            hidden = function.run(change).hidden
        for state in hidden:
            for component in range(PART):
                torch.autograd.grad(state[positions // 2, component], change, retain_graph=True)[0].square().sum(-1)

    seconds = side_by_side({"loop": loop, "ours": lambda: push(pushforward, width)}, rounds=3)
    whole_loop = seconds["loop"] * positions * width / PART
    whole_ours = seconds["ours"] * positions * width / MOST_AT_ONCE
    detail = f"scaled from parts: {whole_loop:.0f} s against {whole_ours:.0f} s, {layers} layers"
    report(
        f"exact, minilm, {positions} tokens, against one autograd.grad per component", whole_loop / whole_ours, 8, False, detail
    )


@torch.no_grad()
def push(pushforward: Pushforward, width: int) -> None:
    """One batch of directions of the first token, through all layers, to norms."""
    for pushed in pushforward.push(torch.zeros(MOST_AT_ONCE, dtype=torch.int64), torch.randn(MOST_AT_ONCE, width)):
        torch.linalg.vector_norm(pushed.hidden, dim=-1)


def share_of_product_rate(what: str, function: InputFunction, pushforward: Pushforward, bound: float) -> None:
    """The flops of a full tangent pass of the first token, which reaches every position, in the time that it takes."""
    config, (positions, width) = function.network.config, function.x.shape
    groups = getattr(config, "num_key_value_heads", config.num_attention_heads) / config.num_attention_heads
    maps = 3 if hasattr(config, "num_key_value_heads") else 2  # a gate beside the maps into and out of hidden features
    linear = 2 * positions * (2 * width**2 * (1 + groups) + maps * width * config.intermediate_size)
    attention = 4 * 2 * positions**2 * width
    flops = MOST_AT_ONCE * config.num_hidden_layers * (linear + attention)
    for _ in range(4):
        push(pushforward, width)  # until the allocator has what it needs
    rates = []
    for _ in range(9):
        before = product_rate()
        start = time.perf_counter()
        push(pushforward, width)
        rates.append(flops / (time.perf_counter() - start) / max(before, product_rate()))
    report(what, float(np.median(rates)), bound, False, f"{min(rates):.2f} to {max(rates):.2f}")


def probes_against_exact(model: idf.Model) -> None:
    """Time and error over a few texts; a percentile is over all their targets and layers."""
    times: dict[str, list[float]] = {"exact": [], "directions": []}
    missed = []
    for number in range(FEW):
        text = prose(model.tokenizer, TOKENS, skip=400 * number)
        shares = {}
        for name in ("directions", "exact", "directions"):
            start = time.perf_counter()
            shares[name] = idf.token_attribution(model, text, exact=name == "exact").contribution
            times[name].append(time.perf_counter() - start)
        missed.append(0.5 * np.abs(shares["directions"] - shares["exact"]).sum("source").values.ravel())
    ratio = float(np.median(times["exact"]) / np.median(times["directions"]))
    report(f"16 directions against exact, minilm, {TOKENS} tokens", ratio, 18, False, f"exact {np.median(times['exact']):.0f} s")
    errors, worst = np.concatenate(missed), max(float(np.quantile(each, 0.99)) for each in missed)
    report("16 directions: ½Σ|ĉ-c| per target, median", float(np.median(errors)), 0.02, True)
    percentile = float(np.quantile(errors, 0.99))
    report("16 directions: ½Σ|ĉ-c| per target, 99th percentile", percentile, 0.05, True, f"worst of {FEW} texts {worst:.3f}")


def coverage(name: str) -> None:
    """How often the stated 95% intervals hold the exact contribution, self and other apart."""
    model = idf.load(name)
    inside: dict[str, list[float]] = {"self": [], "other": []}
    for number in range(TEXTS):
        text = prose(model.tokenizer, SHORT, skip=400 * number)
        truth = idf.token_attribution(model, text, exact=True).contribution.values
        own = np.eye(truth.shape[1], dtype=bool)
        for seed in range(SEEDS):
            found = idf.token_attribution(model, text, seed=seed)
            hit = (found.low.values <= truth) & (truth <= found.high.values)
            inside["self"].append(hit[:, own].mean())
            inside["other"].append(hit[:, ~own].mean())
    for kind, shares in inside.items():
        share = float(np.mean(shares))
        what = f"{Path(name).name}, {TEXTS} texts × {SEEDS} seeds: 95% intervals that hold the {kind} contribution"
        report(what, share, 0.93, False, "and at most 0.97" + ("" if share <= 0.97 else ": MISS"))
