"""A job that fails ends with a sentence, and releases its text."""

import logging
import math
import os
import subprocess
import sys
import threading
import time
import weakref

import pytest

from identiformer.explorer.jobs import INTERNAL, MOST_JOBS, Jobs


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
    def endless(bar):
        while True:
            time.sleep(0.01)
            bar.advance(0)

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
