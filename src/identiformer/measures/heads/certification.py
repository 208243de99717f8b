"""Certify whole heads, in this process or in several: bounds on every weight, one head after another."""

import itertools
import math
import os
import signal
import threading
import time
import warnings
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import joblib
import torch
from torch import Tensor

from identiformer.equations.certificates.map_bounds import GAP, MapBounds, map_bounds
from identiformer.progress import WorkBar
from identiformer.trace import RecordedHead

SMALL = 10**6
"""Weights that one process certifies sooner than others would start."""
PERIOD = 0.3
"""Seconds between checks of whether the process that waits for the bounds is alive."""


def expected_cost(weights: Tensor) -> int:
    """How many weights of a head are too large to stay undecided: the more of them, the longer certification tends to take.

    The multipliers of one program also bound other rows, so this is no count of programs. Its rank correlation with the time per
    head is 0.4 to 0.5 (minilm and smollm2, 100 to 256 tokens).
    """
    return int((weights > GAP).sum())


def certify_heads(
    heads: Iterable[RecordedHead], count: int, tolerance: float, processes: int | None, bar: WorkBar, upper: bool = True
) -> Generator[tuple[RecordedHead, MapBounds]]:
    """The bounds of each of `count` heads as they are computed; with `upper`, upper bounds too.

    Heads are taken as processes need them, so that those of a long text are never all in memory.
    """
    heads = iter(heads)
    first = next(heads, None)
    if first is None:
        return
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    small = count * math.prod(first.shape) < SMALL
    workers = min(count, (1 if small else cores) if processes is None else processes)
    bar.expect(count)
    sent: dict[int, RecordedHead] = {}

    def numbered() -> Iterator[tuple[int, RecordedHead]]:
        for number, head in enumerate(itertools.chain([first], heads)):
            sent[number] = head
            yield number, head

    results: Any = (_certify(number, head, tolerance, upper) for number, head in numbered())
    try:
        if workers > 1:
            # Unlike those of multiprocessing, these processes also start from scripts without a main guard, and are reused.
            run: Any = joblib.Parallel(workers, batch_size=1, return_as="generator_unordered")  # pyright: ignore
            with _interruptions_blocked():
                results = run(joblib.delayed(_certify_in_process)(*job, tolerance, upper) for job in numbered())
        for number, bounds in results:
            yield sent.pop(number), bounds
            bar.advance(1)
    finally:
        with warnings.catch_warnings():  # joblib warns of heads that were certified and not used
            warnings.simplefilter("ignore")
            results.close()


def _certify(number: int, head: RecordedHead, tolerance: float, upper: bool) -> tuple[int, MapBounds]:
    return number, map_bounds(
        head.weights, head.values, head.visible, tolerance=tolerance, upper=upper, projection=head.projection, sink=head.sink
    )


def _certify_in_process(number: int, head: RecordedHead, tolerance: float, upper: bool) -> tuple[int, MapBounds]:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # where it cannot be blocked
    _end_with_parent()
    torch.set_num_threads(1)
    return _certify(number, head, tolerance, upper)


@contextmanager
def _interruptions_blocked() -> Iterator[None]:
    """Start processes that ignore Ctrl-C, which a terminal sends to all processes of a command: it is for the one that waits."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@cache
def _end_with_parent() -> None:
    """End this process soon after its parent was killed; by itself, it would wait for minutes for more work."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PERIOD)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
