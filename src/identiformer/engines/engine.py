"""What every engine does: map a worker over shards. It knows nothing of what a worker computes."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

Worker = Callable[[Any], Any]


@dataclass(frozen=True)
class Job:
    """Numbered shards, and how a worker for them is made."""

    make_worker: Callable[[], Worker]
    """Called once for each worker, where it is to work; it may be sent to another process."""
    numbers: Sequence[int]
    fetch: Callable[[int], Any]
    """What a shard's worker is given; called when its turn comes, so that no more than a few are in memory."""
    cost: Callable[[int], int]
    """About how long a shard takes, in any unit."""
    running: Callable[[Sequence[int]], None]
    """Told which shards are being worked on."""


@runtime_checkable
class Engine(Protocol):
    """Gives the number of each shard with its answer, as they come."""

    def map(self, job: Job) -> Iterator[tuple[int, Any]]: ...
