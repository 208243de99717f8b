"""Very long causal texts in factored form against the forward pass alone: time, and how memory grows. Half an hour."""

import time

from benchmarks.harness import report
from benchmarks.smollm2 import peak_in_a_process_of_its_own, sides

LENGTHS = (8192, 32768)


def run() -> None:
    extra = {}
    for tokens in LENGTHS:
        calls, count = sides(tokens)
        seconds = {}
        # Each takes minutes, in which single disturbances drown; so once, forward passes before and after.
        for name in ("forward", "factored", "forward"):
            start = time.perf_counter()
            calls[name]()
            seconds.setdefault(name, []).append(time.perf_counter() - start)
        forward = sum(seconds["forward"]) / 2
        detail = f"(forward {' and '.join(f'{each:.0f}' for each in seconds['forward'])} s, {count} tokens)"
        report("smollm2: extra time of the factored form, all 270 heads", seconds["factored"][0] / forward - 1, 0.3, True, detail)
        peak = {name: peak_in_a_process_of_its_own(name, tokens) for name in ("forward", "factored")}
        extra[count] = peak["factored"] - peak["forward"]
    (short, less), (long, more) = extra.items()
    detail = f"({less / 1e6:.0f} MB for {short} tokens, {more / 1e6:.0f} MB for {long})"
    report("smollm2: growth of the extra memory over that of the length", (more / less) / (long / short), 1.1, True, detail)
