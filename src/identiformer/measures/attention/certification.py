"""Certify whole heads, in this process or in several: bounds on every weight, one head after another."""

import os
import signal
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import joblib
import torch
from torch import Tensor

from identiformer.equations.attention.heads import group_of
from identiformer.equations.attention.visibility import Visibility
from identiformer.equations.certificates.map_bounds import GAP, MapBounds, map_bounds
from identiformer.progress import WorkBar
from identiformer.trace import RecordedLayer

SMALL = 10**6
"""Weights that one process certifies sooner than others would start."""


@dataclass(frozen=True)
class HeadToCertify:
    """What a process needs to certify one head; `layer` and `head` only name it."""

    layer: int
    head: int
    weights: Tensor
    values: Tensor
    visible: Visibility
    projection: Tensor | None
    sink: bool
    tolerance: float
    upper: bool
    """Whether to solve upper bounds too."""


def head_to_certify(
    name: tuple[int, int], record: RecordedLayer, head: int, tolerance: float, upper: bool = True
) -> HeadToCertify:
    """One head's part of a layer; copied, since a view would carry the whole layer to another process."""
    values = record.values[group_of(head, record.heads, len(record.values))].clone()
    projection = None if record.projection is None else record.projection[head].clone()
    return HeadToCertify(*name, record.weights[head].clone(), values, record.visible, projection, record.sink, tolerance, upper)


def expected_cost(weights: Tensor) -> int:
    """How many weights of a head are too large to stay undecided: the more of them, the longer certification tends to take.

    The multipliers of one program also bound other rows, so this is no count of programs. Its rank correlation with the time per
    head is 0.4 to 0.5 (minilm and smollm2, 100 to 256 tokens).
    """
    return int((weights > GAP).sum())


def certify_heads(heads: Sequence[HeadToCertify], processes: int | None, bar: WorkBar) -> Iterator[tuple[int, int, MapBounds]]:
    """The bounds of each head as they are computed; an interruption ends them, and what is certified is kept."""
    size = sum(head.weights.numel() for head in heads)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    workers = min(len(heads), (1 if size < SMALL else cores) if processes is None else processes)
    bar.expect(len(heads))
    results: Any = map(_certify, heads)
    if workers > 1:
        # Unlike those of multiprocessing, these processes also start from scripts without a main guard, and are reused.
        run: Any = joblib.Parallel(workers, batch_size=1, return_as="generator_unordered")  # pyright: ignore
        results = run(joblib.delayed(_certify_in_process)(head) for head in heads)
    try:
        for result in results:
            yield result
            bar.advance(1)
    except KeyboardInterrupt:
        return
    finally:
        if workers > 1:
            with warnings.catch_warnings():  # joblib warns of heads that were certified and not used
                warnings.simplefilter("ignore")
                results.close()


def _certify(job: HeadToCertify) -> tuple[int, int, MapBounds]:
    bounds = map_bounds(
        job.weights, job.values, job.visible, tolerance=job.tolerance, upper=job.upper, projection=job.projection, sink=job.sink
    )
    return job.layer, job.head, bounds


def _certify_in_process(job: HeadToCertify) -> tuple[int, int, MapBounds]:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interruption is for the process that waits
    torch.set_num_threads(1)
    return _certify(job)
