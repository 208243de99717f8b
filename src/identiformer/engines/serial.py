"""One worker in this process, one shard after the other."""

from collections.abc import Iterator
from typing import Any

from identiformer.engines.engine import Job


class SerialEngine:
    """The default: nothing to start, nothing to lose."""

    def map(self, job: Job) -> Iterator[tuple[int, Any]]:
        worker = job.make_worker() if job.numbers else None
        for number in job.numbers:
            assert worker is not None
            job.running((number,))
            yield number, worker(job.fetch(number))
