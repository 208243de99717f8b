"""A long causal text in factored form against the forward pass alone: time and memory."""

import ctypes
import gc
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import identiformer as idf
from benchmarks.harness import bare_pass, last_number_of, report, side_by_side
from benchmarks.prose import prose

TOKENS = 4096


def sides(tokens: int) -> tuple[dict[str, Callable[[], Any]], int]:
    """The forward pass alone, and traces in factored form without and with null mass; and how many tokens they see."""
    model = idf.load("smollm2")
    # Its angles are computed for any position; beyond what it was trained on it makes no sense of a text, in the same time.
    model.network.config.max_position_embeddings = max(tokens, model.network.config.max_position_embeddings)
    text = prose(model.tokenizer, tokens)
    model.trace("warm up", form="factored", raw_norms=True)
    return {
        "forward": bare_pass(model, text, use_cache=False),
        "factored": lambda: model.trace(text, form="factored"),
        "norms": lambda: model.trace(text, form="factored", raw_norms=True),
    }, len(model.tokenizer(text)["input_ids"])


def run() -> None:
    calls, count = sides(TOKENS)
    times = side_by_side(calls, 3)
    detail = f"(forward {times['forward']:.1f} s, {count} tokens)"
    extra = {name: seconds / times["forward"] - 1 for name, seconds in times.items()}
    report("smollm2: extra time of the factored form, all 270 heads", extra["factored"], 0.3, True, detail)
    report("smollm2: extra time with null mass", extra["norms"], 0.8, True)
    peak = {name: peak_in_a_process_of_its_own(name, TOKENS) for name in calls}
    report("smollm2: extra peak memory in MB", (peak["factored"] - peak["forward"]) / 1e6, 500, True)
    report("smollm2: extra peak memory with null mass in MB", (peak["norms"] - peak["forward"]) / 1e6, 500, True)


def peak_in_a_process_of_its_own(name: str, tokens: int) -> int:
    """The most memory that one call held, in bytes, its answer included; freed memory of other calls would hide it."""
    return last_number_of("-m", "benchmarks.smollm2", name, str(tokens))


if __name__ == "__main__":
    call = sides(int(sys.argv[2]))[0][sys.argv[1]]
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)  # what loading left over would hide some of what is measured
    Path("/proc/self/clear_refs").write_text("5")  # resets the high-water mark
    answer = call()
    status = Path("/proc/self/status").read_text()
    print(1024 * int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]))
