"""The Ray engine yields the same bits as the serial engine, even when a worker is killed."""

import multiprocessing
import os
import subprocess
import sys

import pytest

import identiformer as idf
from identiformer.engines import Job, RayEngine, SerialEngine, one_cluster
from identiformer.engines.ray import DriverProcess
from identiformer.engines.ray_driver import connect
from identiformer.errors import InputError, MissingPackageError, RunError, StoppedError
from tests.engines.squares import Maker, raise_at_once
from tests.runs.tiny import ALL, bits, texts

ray = pytest.importorskip("ray")


@pytest.fixture(scope="module", autouse=True)
def _cluster():
    """One cluster for all tests of this module, started by the caller, because starting one takes seconds."""
    os.environ |= {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", "RAY_worker_niceness": "0"}
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    with one_cluster():
        yield
    ray.shutdown()


def job(make, numbers, running=None):
    receive = (lambda shards: None) if running is None else running.append
    return Job(make, list(numbers), lambda number: number, lambda number: number, receive)


def test_every_shard_is_computed_once_longest_first_on_one_thread():
    running = []
    results = dict(RayEngine(2).map(job(Maker(), range(6), running)))
    assert results == {number: (number * number, "1") for number in range(6)}
    assert running[0] in ([5], [4, 5])
    assert 0 in running[-1]
    assert [number for number, _ in SerialEngine().map(job(Maker(), [3, 1]))] == [3, 1]
    assert not list(RayEngine(2).map(job(Maker(), []))) + list(SerialEngine().map(job(Maker(), [])))


def test_a_killed_worker_is_replaced_and_its_shard_computed_again(tmp_path):
    results = dict(RayEngine(2).map(job(Maker(3, str(tmp_path / "died")), range(5))))
    assert (tmp_path / "died").exists()
    assert sorted(results) == [0, 1, 2, 3, 4]


@pytest.mark.slow
def test_a_shard_that_kills_every_worker_stops_the_run():
    with pytest.raises(StoppedError, match=r"workers died 3 times on shard 2 .*; finished work is kept\."):
        list(RayEngine(1).map(job(Maker(2), [2])))


def test_the_exception_of_a_worker_is_raised():
    with pytest.raises(ArithmeticError, match="expected another number, got 13"):
        list(RayEngine(1).map(job(Maker(), [13])))


def test_the_exception_of_making_a_worker_is_raised():
    with pytest.raises(ArithmeticError, match="no worker"):
        list(RayEngine(1).map(job(raise_at_once, [1])))


@pytest.fixture(scope="module")
def serial(tiny, tmp_path_factory):
    return idf.run(texts(36, longest=5), tiny, ALL, out=tmp_path_factory.mktemp("runs") / "serial", shard_size=64)


@pytest.mark.slow
def test_one_worker_with_a_sent_model_yields_the_same_bits(serial, tiny, tmp_path):
    run = idf.run(texts(36, longest=5), tiny, ("effective_attention",), out=tmp_path / "run", engine="ray")
    ours, theirs = bits(run), bits(serial)
    assert ours == {key: theirs[key] for key in ours}


@pytest.mark.slow
def test_two_workers_that_load_the_model_yield_the_same_bits(serial, tiny_path, tmp_path):
    run = idf.run(texts(36, longest=5), tiny_path, ALL, out=tmp_path / "run", engine="ray", workers=2)
    assert bits(run) == bits(serial)


@pytest.mark.slow
def test_readings_of_two_workers_have_the_same_bits(tiny, tiny_path, tmp_path):
    alone, run = (
        idf.run(texts(36, longest=4), model, ("reading",), out=tmp_path / name, **options)
        for name, model, options in (("serial", tiny, {"shard_size": 64}), ("ray", tiny_path, {"engine": "ray", "workers": 2}))
    )
    assert bits(run) == bits(alone)
    assert int(run["reading"].texts.max()) == 36


def test_an_unreachable_address_and_invalid_arguments_are_rejected(monkeypatch, tmp_path, tiny):
    ray.shutdown()
    for address in ("127.0.0.1:1", "ray://127.0.0.1:1"):
        with pytest.raises(RunError, match="no Ray cluster answers at"):
            idf.run(texts(3), tiny, out=tmp_path / address[:3], engine="ray", address=address)
    with pytest.raises(InputError, match="at least one worker"):
        RayEngine(0)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingPackageError, match=r"pip install 'identiformer\[ray\]'"):
        RayEngine(1)


def test_a_failure_to_start_ray_is_a_run_error(monkeypatch):
    def fails(*_, **__):
        raise Exception("The current node timed out during startup.")  # as Ray raises it

    monkeypatch.setattr(ray, "init", fails)
    with pytest.raises(RunError, match=r"Ray could not be started on this machine .*timed out.* or use one worker"):
        connect(None, 2)


@pytest.fixture
def driver():
    """A process in place of the Ray driver, and the driver's end of the connection."""
    ours, theirs = multiprocessing.Pipe()
    made = DriverProcess.__new__(DriverProcess)
    made.address, made.connection, made.started = "10.0.0.1:6379", ours, True
    made.process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"])
    yield made, theirs
    made.process.kill()
    made.process.wait()


def test_alive_messages_are_skipped_and_silence_is_an_error(driver):
    made, theirs = driver
    for message in (("alive",), ("alive",), ("result", 3, b"9")):
        theirs.send(message)
    assert made.receive(silence=0.1) == ("result", 3, b"9")
    with pytest.raises(StoppedError, match=r"^the Ray cluster at 10.0.0.1:6379 was lost \(no answer for 0 seconds\); finished"):
        made.receive(silence=0.1)


def test_errors_of_the_driver_are_raised(driver):
    made, theirs = driver
    for message, error, sentence in (
        (("stopped", "workers died"), StoppedError, "workers died; finished work is kept."),
        (("lost", "no node"), StoppedError, "the Ray cluster at 10.0.0.1:6379 was lost (no node); finished work is kept."),
        (("rejected", "expected a token."), RunError, "expected a token."),
    ):
        theirs.send(message)
        with pytest.raises(error) as caught:
            made.receive()
        assert str(caught.value) == sentence
    theirs.close()
    for use in (made.receive, lambda: made.send("shard")):
        with pytest.raises(StoppedError, match="was lost"):
            use()
