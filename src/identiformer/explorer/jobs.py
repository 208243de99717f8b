"""Slow work: one job at a time, and one more in the background, with progress, canceled when no page waits for it any more."""

import json
import logging
import os
import secrets
import sys
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
"""Finished jobs whose results can still be fetched."""
PATIENCE = 20.0
"""Seconds after which a job is canceled if no page has polled it."""
INTERNAL = "expected an answer, got an internal error; see the terminal in which the explorer runs."
log = logging.getLogger("identiformer.explorer")


class TooManyRequestsError(IdentiformerError):
    """More jobs, or texts to open, than are accepted at once."""


class _CanceledError(Exception):
    pass


@dataclass(eq=False)
class Job(WorkBar):
    """One piece of work, and the bar that it reports its progress to."""

    text_id: str
    work: Callable[["Job"], Any]
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    state: str = "waiting"
    expected: int = 0
    done: int = 0
    result: Any = None
    polled: float = field(default_factory=time.monotonic)
    canceled: bool = False

    def expect(self, amount: int) -> None:
        self.expected += amount
        self._check()

    def advance(self, amount: int) -> None:
        self.done += amount
        self._check()

    def show(self, partial: Any) -> None:
        """Let the page have part of the result already."""
        self.result = partial

    def cancel(self) -> None:
        """End it: at once if it is waiting, otherwise when its work next reports progress."""
        self.canceled = True
        if self.state == "waiting":
            self.state = "canceled"
            self.work = _nothing  # otherwise it would keep its text in memory until the job before it ends

    def _check(self) -> None:
        if self.canceled or time.monotonic() - self.polled > PATIENCE:
            raise _CanceledError

    def poll(self) -> dict[str, Any]:
        """Its state and progress, and its result once it has one."""
        self.polled = time.monotonic()
        share = self.done / self.expected if self.expected else 0.0
        return {"job": self.id, "state": self.state, "progress": min(share, 1.0), "result": self.result}


class Jobs:
    """All jobs of a server."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._lock = threading.Lock()
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="job")
        self._background = ThreadPoolExecutor(max_workers=1, thread_name_prefix="background", initializer=_step_back)

    def start(self, text_id: str, work: Callable[["Job"], Any], background: bool = False) -> Job:
        """Queue a piece of work; work in the background does not delay other jobs. Raises if too many are waiting already."""
        with self._lock:
            open_jobs = [job for job in self._jobs.values() if job.state in ("waiting", "running")]
            if len(open_jobs) >= MOST_JOBS:
                raise TooManyRequestsError(f"expected at most {MOST_JOBS} jobs at once; wait for one to end, or cancel it.")
            ended = [job_id for job_id, job in self._jobs.items() if job not in open_jobs]
            for job_id in ended[: max(0, len(ended) - MOST_KEPT + 1)]:
                del self._jobs[job_id]
            job = Job(text_id, work)
            self._jobs[job.id] = job
        (self._background if background else self._worker).submit(self._run, job)
        return job

    def find(self, job_id: str) -> Job | None:
        """A job by its id; None if it is no longer known."""
        return self._jobs.get(job_id)

    def cancel(self, text_id: str | None = None) -> None:
        """Cancel the jobs of one text, or all jobs."""
        for job in list(self._jobs.values()):
            if text_id in (None, job.text_id):
                job.cancel()

    def close(self) -> None:
        """Cancel all jobs, and accept no more."""
        self.cancel()
        self._worker.shutdown(wait=True)
        self._background.shutdown(wait=True)

    @staticmethod
    def _run(job: Job) -> None:
        try:
            job._check()
            job.state = "running"
            result = job.work(job)
            json.dumps(result, ensure_ascii=False, allow_nan=False).encode()  # fail here, not when a page polls
            job.result, job.state = result, "done"
        except _CanceledError:
            job.state = "canceled"
        except IdentiformerError as error:
            job.result, job.state = str(error), "failed"
        except BaseException:  # a panic of a tokenizer is not an Exception, and must not leave a job running forever
            log.exception("a job failed")
            job.result, job.state = INTERNAL, "failed"
        finally:
            job.work = _nothing  # frees what it holds of a text


def _step_back() -> None:
    """Let other work have the processor first. Threads and processes that this thread starts inherit it."""
    if sys.platform == "linux":  # elsewhere only whole processes have a priority
        thread = threading.get_native_id()
        # More than the process has: only a privileged user may have less.
        os.setpriority(os.PRIO_PROCESS, thread, min(19, os.getpriority(os.PRIO_PROCESS, thread) + 10))


def _nothing(job: Job) -> None:
    return None
