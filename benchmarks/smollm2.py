"""A long causal text in factored form against the forward pass alone: time and memory."""

import gc
from pathlib import Path
from typing import Any

import torch

import identiformer as idf
from benchmarks.harness import report, side_by_side
from benchmarks.prose import prose

TOKENS = 4096


def run() -> None:
    model = idf.load("smollm2")
    text = prose(model.tokenizer, TOKENS)
    inputs = model.tokenizer(text, return_tensors="pt")
    count = inputs["input_ids"].shape[1]

    def forward() -> None:
        with torch.no_grad():
            model.network(**inputs, use_cache=False)

    def factored() -> Any:
        return model.trace(text, form="factored")

    def with_norms() -> Any:
        return model.trace(text, form="factored", raw_norms=True)

    times = side_by_side({"forward": forward, "factored": factored, "norms": with_norms}, 3)
    extra = {name: seconds / times["forward"] - 1 for name, seconds in times.items()}
    detail = f"(forward {times['forward']:.1f} s, {count} tokens)"
    report("smollm2: extra time of the factored form, all 270 heads", extra["factored"], 0.3, True, detail)
    report("smollm2: extra time with null mass", extra["norms"], 0.8, True)
    alone, traced, normed = (peak_memory(call) for call in (forward, factored, with_norms))
    report("smollm2: extra peak memory in MB", (traced - alone) / 1e6, 500, True)
    report("smollm2: extra peak memory with null mass in MB", (normed - alone) / 1e6, 500, True)


def peak_memory(call: Any) -> int:
    """The most memory that the process held while the call ran, in bytes, its answer included."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # resets the high-water mark
    answer = call()
    status = Path("/proc/self/status").read_text()
    del answer
    return 1024 * int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])
