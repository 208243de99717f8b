"""Workers as Ray actors, on this machine or on a cluster; a worker that dies is replaced and its shard computed again."""

import importlib.util
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

from identiformer.engines.engine import Job
from identiformer.engines.ray_process import DriverProcess, unreachable
from identiformer.errors import InputError, MissingPackageError, RunError


@dataclass(frozen=True)
class RayEngine:
    """Maps shards over so many actors; with an address, on the cluster there."""

    workers: int = 1
    address: str | None = None
    gpus_per_worker: int = 0

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise InputError(f"expected at least one worker, got {self.workers}.")
        if importlib.util.find_spec("ray") is None:
            raise MissingPackageError("this engine needs the package ray; run: pip install 'identiformer[ray]'")

    def map(self, job: Job) -> Iterator[tuple[int, Any]]:
        if not job.numbers:
            return
        from ray.cloudpickle import cloudpickle

        # Whoever gets a long shard last keeps everybody waiting.
        waiting = iter(sorted(job.numbers, key=lambda number: (-job.cost(number), number)))
        left = len(job.numbers)
        with _driver(self) as driver:
            driver.send("job", cloudpickle.dumps(job.make_worker), left, self.workers, self.gpus_per_worker)
            # One more than there are workers, so that nobody waits for us; more would fill the memory.
            for number in islice(waiting, self.workers + 1):
                driver.send("shard", number, cloudpickle.dumps(job.fetch(number)))
            while left:
                kind, *content = driver.receive()
                if kind == "running":
                    job.running(content[0])
                elif kind == "raised":
                    raise cloudpickle.loads(content[1])
                else:
                    left -= 1
                    for number in islice(waiting, 1):
                        driver.send("shard", number, cloudpickle.dumps(job.fetch(number)))
                    yield content[0], cloudpickle.loads(content[1])


_kept: ContextVar[list[DriverProcess] | None] = ContextVar("kept", default=None)


@contextmanager
def one_cluster() -> Iterator[None]:
    """Within this Ray is started when it is first needed, and stopped in the end: starting it for each map takes seconds."""
    kept: list[DriverProcess] = []
    token = _kept.set(kept)
    try:
        yield
    finally:
        _kept.reset(token)
        for driver in kept:
            driver.close()


@contextmanager
def _driver(engine: RayEngine) -> Iterator[DriverProcess]:
    """The process that talks to Ray: a new one, or within `one_cluster` the one of the map before."""
    kept = _kept.get()
    address = _callers_cluster() or engine.address
    driver = next((each for each in kept or () if each.is_running and each.address == address), None)
    if driver is None:
        if address is not None:
            _check_address(address)
        driver = DriverProcess(address, max(engine.workers, os.cpu_count() or 1))
        if kept is not None:
            kept.append(driver)
    try:
        driver.wait_until_started()
        yield driver
    except BaseException:  # it may still be at work on this job
        driver.close()
        raise
    if kept is None:
        driver.close()


def _callers_cluster() -> str | None:
    """The address of the cluster that the caller has connected to, if any."""
    ray = sys.modules.get("ray")
    return ray.get_runtime_context().gcs_address if ray is not None and ray.is_initialized() else None


def _check_address(address: str) -> None:
    """Report at once that nobody answers there; Ray would try for a minute."""
    if address == "auto":
        return
    place = urlsplit(address if "://" in address else f"ray://{address}")
    try:
        socket.create_connection((place.hostname or "", place.port or 10001), timeout=5).close()
    except (OSError, ValueError):
        raise RunError(unreachable(address)) from None
