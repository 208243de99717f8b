"""Seconds and gigabytes for N tokens of a model: one process per row, with its peak memory, torch and the model included."""

import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import identiformer as idf
from benchmarks.harness import inform
from benchmarks.prose import prose

CASES: dict[str, tuple[str, int, Callable[[idf.Model, str], Any]]] = {
    "effective attention of all heads": ("minilm", 256, lambda model, text: idf.effective_attention(model.trace(text))),
    "reading of all heads, certified": ("minilm", 128, lambda model, text: idf.read(model, text)),
    "attribution of all hidden vectors": ("minilm", 128, lambda model, text: idf.token_attribution(model, text)),
    "null mass of all heads": ("smollm2", 4096, lambda model, text: model.trace(text, form="factored", raw_norms=True)),
}


def run() -> None:
    for what, (name, tokens, _) in CASES.items():
        command = [sys.executable, "-m", "benchmarks.costs", what]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        seconds, gigabytes = map(float, done.stdout.split()[-2:])
        inform(f"{name}, {tokens:,} tokens, {what}: seconds", seconds)
        inform(f"{name}, {tokens:,} tokens, {what}: GB", gigabytes)


if __name__ == "__main__":
    name, tokens, call = CASES[sys.argv[1]]
    model = idf.load(name)
    text = prose(model.tokenizer, tokens)
    model.trace("warm up")
    start = time.perf_counter()
    call(model, text)
    unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes
    print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9)
