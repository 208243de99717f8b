"""Run the sides of a comparison in turns, and say nothing when the machine was disturbed meanwhile."""

import contextlib
import ctypes
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from benchmarks.results import Row

MEASURED: list[Row] = []
"""What was reported since the list was last emptied."""
SHARED = Path(__file__).resolve().parents[2] / "shared"
"""Data and models beside a development checkout."""
SAG = 0.8
TRIES = 3


class DisturbedMachineError(Exception):
    """The machine's own speed changed while we measured."""


def keep_memory() -> None:
    """Let the allocator keep what is freed, for every side alike.

    Otherwise glibc gives large arrays back and every call asks for them anew: on the virtual machines at hand the kernel's
    page faults then take as long as the arithmetic, and as they please.
    """
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL("libc.so.6")
        trim_threshold, top_pad, mmap_threshold = -1, -2, -3  # from malloc.h
        for option, size in ((trim_threshold, 2**31 - 1), (top_pad, 2**28), (mmap_threshold, 2**30)):
            libc.mallopt(option, size)


def product_rate() -> float:
    """Float32 matrix products, in flop a second: the best of some, which a busy neighbor still pulls down."""
    left, right = torch.randn(1024, 1024), torch.randn(1024, 1024)
    best = min(_seconds(lambda: left @ right) for _ in range(12))
    return 2 * 1024**3 / best


def side_by_side(
    sides: Mapping[str, Callable[[], Any]], rounds: int, repeats: Mapping[str, int] | None = None
) -> dict[str, float]:
    """The median seconds of each side, run in turns; a quick side may repeat within its turn."""
    repeats = repeats or {}
    for _ in range(TRIES):
        for call in sides.values():
            call()  # first calls pay for memory and threads
        before = product_rate()
        times: dict[str, list[float]] = {name: [] for name in sides}
        for _ in range(rounds):
            for name, call in sides.items():
                times[name] += [_seconds(call) for _ in range(repeats.get(name, 1))]
        after = product_rate()
        if min(before, after) > SAG * max(before, after):
            return {name: statistics.median(each) for name, each in times.items()}
    raise DisturbedMachineError(
        f"products ran at {before / 1e9:.0f} and then {after / 1e9:.0f} Gflop/s; not reported, run it again"
    )


def bare_pass(model: Any, text: str, **options: Any) -> Callable[[], None]:
    """The model's own forward pass over a text, without this package."""
    inputs = model.tokenizer(text, return_tensors="pt")

    def forward() -> None:
        with torch.no_grad():
            model.network(**inputs, **options)

    return forward


def last_number_of(*arguments: str) -> int:
    """The last word that a Python process of its own prints.

    Large arrays are mapped one by one in it. By default glibc moves that limit as it goes, and what it scatters adds from nothing
    to 300 MB, another amount in every run.
    """
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": str(2 * 10**6)}
    done = subprocess.run([sys.executable, *arguments], check=True, capture_output=True, text=True, env=environment)
    return int(done.stdout.split()[-1])


def _seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def report(what: str, figure: float, bound: float, at_most: bool, detail: str = "") -> None:
    """One line: what was measured, the ratio, and whether it is what we promise."""
    kept = figure <= bound if at_most else figure >= bound
    wanted = f"{'≤' if at_most else '≥'} {bound:g}"
    MEASURED.append(Row(what, figure, wanted, kept, detail))
    print(f"{'ok  ' if kept else 'MISS'} {figure:8.3g}  ({wanted:>7})  {what}{'  ' + detail if detail else ''}", flush=True)


def inform(what: str, figure: float) -> None:
    """One line without a promise: seconds and gigabytes differ between machines."""
    MEASURED.append(Row(what, figure))
    print(f"     {figure:8.3g}  {what}", flush=True)
