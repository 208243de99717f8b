"""The interface of all engines, which know nothing about what a worker computes, and the serial engine."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

Worker = Callable[[Any], Any]


@dataclass(frozen=True)
class Job:
    """Numbered shards, and how to make a worker that computes them."""

    make_worker: Callable[[], Worker]
    """Called once in the process of each worker, to which it may be sent."""
    numbers: Sequence[int]
    fetch: Callable[[int], Any]
    """Returns the input of a shard; called shortly before it is computed, so that only a few inputs are in memory."""
    cost: Callable[[int], int]
    """Estimates how long a shard takes, in any unit."""
    running: Callable[[Sequence[int]], None]
    """Receives the numbers of the shards that are being computed."""


@runtime_checkable
class Engine(Protocol):
    """Yields the number of each shard with the result of its worker, in the order in which they finish; closing ends the work."""

    def map(self, job: Job) -> Generator[tuple[int, Any]]: ...


class SerialEngine:
    """Computes one shard after the other in this process."""

    def map(self, job: Job) -> Generator[tuple[int, Any]]:
        if not job.numbers:
            return
        worker = job.make_worker()
        for number in job.numbers:
            job.running((number,))
            yield number, worker(job.fetch(number))
