"""Jobs are bounded in number, and end: with a sentence when they fail, and without their text."""

import logging
import math
import os
import subprocess
import sys
import threading
import time
import weakref

import pytest

from identiformer.explorer import jobs as jobs_module
from identiformer.explorer.jobs import INTERNAL, MOST_JOBS, Jobs
from tests.explorer.client import endless


@pytest.fixture
def jobs():
    jobs = Jobs()
    yield jobs
    jobs.close()


def _ended(job):
    for _ in range(500):
        if job.state not in ("waiting", "running"):
            return job
        time.sleep(0.01)
    raise AssertionError("the job does not end in time")


class PanicError(BaseException):
    """Like what tokenizers raise when their Rust code fails."""


@pytest.mark.parametrize("error", [OverflowError("int too large"), MemoryError(), PanicError("at line 3"), KeyError("secret")])
def test_an_unexpected_error_is_a_sentence_for_the_page_and_a_traceback_in_the_terminal(jobs, caplog, error):
    def work(bar):
        raise error

    for _ in range(2 * MOST_JOBS):  # none of them stays in the queue
        job = _ended(jobs.start("text", work))
    assert (job.state, job.poll()["result"]) == ("failed", INTERNAL)
    record = caplog.records[-1]
    assert (record.levelno, record.exc_info[1]) == (logging.ERROR, error)


@pytest.mark.parametrize("result", [math.nan, [math.inf], {1: object()}, "\ud800"])
def test_a_result_that_cannot_be_sent_fails_the_job(jobs, caplog, result):
    assert _ended(jobs.start("text", lambda bar: result)).poll()["result"] == INTERNAL


def test_a_job_that_is_canceled_while_it_waits_releases_its_text(jobs):
    class Text:
        pass

    first = jobs.start("first", endless)
    texts = []
    for _ in range(50):
        text = Text()
        texts.append(weakref.ref(text))
        jobs.start("text", lambda bar, text=text: text).cancel()
        del text
    assert [text() for text in texts] == [None] * 50
    assert first.state == "running"


@pytest.mark.skipif(sys.platform != "linux", reason="threads have a priority of their own only on Linux")
def test_work_in_the_background_yields_to_other_work(jobs):
    def nice(bar):
        own = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
        started = subprocess.run([sys.executable, "-c", "import os; print(os.nice(0))"], capture_output=True, check=True)
        return [own, int(started.stdout)]

    assert _ended(jobs.start("text", nice)).result == [os.nice(0)] * 2
    assert _ended(jobs.start("text", nice, background=True)).result == [os.nice(0) + 10] * 2


def test_fifty_jobs_at_once_are_bounded_and_a_canceled_one_ends():
    jobs = Jobs()
    started, rejected = [], 0
    for _ in range(50):
        try:
            started.append(jobs.start("text", endless))
        except jobs_module.TooManyRequestsError:
            rejected += 1
    assert (len(started), rejected) == (MOST_JOBS, 50 - MOST_JOBS)
    for job in started:
        job.cancel()
    jobs.close()
    assert [job.state for job in started] == ["canceled"] * MOST_JOBS


def test_a_job_is_canceled_when_no_page_polls_it(monkeypatch):
    monkeypatch.setattr(jobs_module, "PATIENCE", 0.2)
    jobs = Jobs()
    job = jobs.start("text", endless)
    for _ in range(100):
        if job.state == "canceled":
            break
        time.sleep(0.05)
    assert job.state == "canceled"
    jobs.close()
