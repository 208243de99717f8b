"""Slow work in the background: one piece at a time, with progress, and stopped when nobody waits for it any more."""

import json
import logging
import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from identiformer.errors import IdentiformerError
from identiformer.progress import WorkBar

MOST_JOBS = 4
"""Waiting or running at once."""
MOST_KEPT = 16
"""Finished ones whose results can still be asked for."""
PATIENCE = 20.0
"""Seconds after which a job is given up that no page has asked after."""
INTERNAL = "expected an answer, got an internal error; see the terminal in which the explorer runs."
log = logging.getLogger("identiformer.explorer")


class TooManyJobsError(IdentiformerError):
    """More was asked for at once than is taken."""


class _CanceledError(Exception):
    pass


@dataclass(eq=False)
class Job(WorkBar):
    """One piece of work; it is also the bar that the work reports to."""

    owner: str
    """What it is about: the number of a text."""
    work: Callable[[WorkBar], Any]
    number: str = field(default_factory=lambda: secrets.token_hex(8))
    state: str = "waiting"
    expected: int = 0
    done: int = 0
    result: Any = None
    asked: float = field(default_factory=time.monotonic)
    canceled: bool = False

    def expect(self, amount: int) -> None:
        self.expected += amount
        self._check()

    def advance(self, amount: int) -> None:
        self.done += amount
        self._check()

    def cancel(self) -> None:
        """End it: at once where it waits, else as soon as its work looks up."""
        self.canceled = True
        if self.state == "waiting":
            self.state = "canceled"
            self.work = _nothing  # a job may wait for long behind another, with all that its text holds

    def _check(self) -> None:
        if self.canceled or time.monotonic() - self.asked > PATIENCE:
            raise _CanceledError

    def told(self) -> dict[str, Any]:
        """How far it is, and its result once it has one."""
        self.asked = time.monotonic()
        share = self.done / self.expected if self.expected else 0.0
        return {"job": self.number, "state": self.state, "progress": min(share, 1.0), "result": self.result}


class Jobs:
    """All jobs of a server."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._lock = threading.Lock()
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="job")

    def start(self, owner: str, work: Callable[[WorkBar], Any]) -> Job:
        """Take a piece of work, or refuse it where too many wait already."""
        with self._lock:
            open_jobs = [job for job in self._jobs.values() if job.state in ("waiting", "running")]
            if len(open_jobs) >= MOST_JOBS:
                raise TooManyJobsError(f"expected at most {MOST_JOBS} jobs at once; wait for one to end, or cancel it.")
            ended = [number for number, job in self._jobs.items() if job not in open_jobs]
            for number in ended[: max(0, len(ended) - MOST_KEPT + 1)]:
                del self._jobs[number]
            job = Job(owner, work)
            self._jobs[job.number] = job
        self._worker.submit(self._run, job)
        return job

    def find(self, number: str) -> Job | None:
        """A job by its number."""
        return self._jobs.get(number)

    def cancel(self, owner: str | None = None) -> None:
        """End what is about one text, or everything."""
        for job in list(self._jobs.values()):
            if owner in (None, job.owner):
                job.cancel()

    def close(self) -> None:
        """End everything, and take no more."""
        self.cancel()
        self._worker.shutdown(wait=True)

    @staticmethod
    def _run(job: Job) -> None:
        try:
            job._check()
            job.state = "running"
            result = job.work(job)
            json.dumps(
                result, ensure_ascii=False, allow_nan=False
            ).encode()  # what a page cannot be sent fails here, not when the page asks
            job.result, job.state = result, "done"
        except _CanceledError:
            job.state = "canceled"
        except IdentiformerError as error:
            job.result, job.state = str(error), "failed"
        except BaseException:  # a panic of a tokenizer is not an Exception, and must not leave a job that never ends
            log.exception("a job failed")
            job.result, job.state = INTERNAL, "failed"
        finally:
            job.work = _nothing  # what it held of a text can be freed


def _nothing(bar: WorkBar) -> None:
    return None
