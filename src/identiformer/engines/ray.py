"""The Ray engine: workers are Ray actors, on this machine or on a cluster, and are replaced when they die.

Only a separate process (`ray_driver`) connects to Ray. When the head of a cluster goes away, Ray ends the connected process; when
the network does, its calls may block forever; and it prints messages of other nodes to standard output. In a process of its own
none of this affects the caller, whose run ends with an error of one sentence and keeps every finished shard.
"""

import multiprocessing
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from identiformer.engines.engine import Job
from identiformer.errors import InputError, RunError, StoppedError, require_package

SILENCE = 40.0
"""Seconds without a message after which the cluster counts as lost; the driver sends one every second or two."""
START = 150.0
"""Seconds for Ray to start or connect; its own limits are shorter, unless it hangs."""
DRIVER_ENVIRONMENT = {
    # Suppresses a warning about a coming change of GPU variables, which workers without GPUs do not use.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    # By default, Ray gives its workers a lower priority than other programs.
    "RAY_worker_niceness": "0",
}


@dataclass(frozen=True)
class RayEngine:
    """Maps shards over Ray actors; with an address, on the cluster there."""

    workers: int = 1
    address: str | None = None
    gpus_per_worker: int = 0

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise InputError(f"expected at least one worker, got {self.workers}.")
        require_package("ray", "ray", "this engine needs the package ray")

    def map(self, job: Job) -> Generator[tuple[int, Any]]:
        if not job.numbers:
            return
        from ray.cloudpickle import cloudpickle

        # Long shards first: at the end, all workers wait for the last shard.
        waiting = iter(sorted(job.numbers, key=lambda number: (-job.cost(number), number)))
        left = len(job.numbers)
        with _driver(self) as driver:
            driver.send("job", cloudpickle.dumps(job.make_worker), left, self.workers, self.gpus_per_worker)
            # One shard more than there are workers, so that none waits for input; more would fill the memory.
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


class DriverProcess:
    """Starts `identiformer.engines.ray_driver`, and exchanges messages with it."""

    def __init__(self, address: str | None, cpus: int) -> None:
        self.address = address
        self.connection, driver_end = multiprocessing.Pipe()
        number = driver_end.fileno()
        command = [sys.executable, "-P", "-m", "identiformer.engines.ray_driver", str(number), str(cpus), address or ""]
        # Workers look for modules where their driver does.
        path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)
        streams: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        with driver_end:
            self.process = subprocess.Popen(
                command,
                pass_fds=[number],
                env={**DRIVER_ENVIRONMENT, **os.environ, "PYTHONPATH": path},
                start_new_session=True,  # Ctrl-C reaches this process alone, which then closes the connection
                **streams,
            )
        self.started = False

    def wait_until_started(self) -> None:
        """Wait until the driver has connected to a cluster or started one."""
        if not self.started:
            try:
                self.receive(START)
            except StoppedError as error:  # nothing was computed yet
                raise RunError(f"{error.reason} at the start; check that it runs, and its version and token.") from error
            self.started = True

    def send(self, *message: Any) -> None:
        try:
            self.connection.send(message)
        except OSError:
            raise self._lost("the connection to it was closed") from None

    def receive(self, silence: float = SILENCE) -> tuple[Any, ...]:
        """Return the next message other than "alive"; raise the errors that the driver reports."""
        errors = {"rejected": RunError, "stopped": StoppedError, "lost": self._lost}
        while self.connection.poll(silence):
            try:
                message = self.connection.recv()
            except (EOFError, OSError):
                raise self._lost("Ray closed the connection") from None
            if message[0] in errors:
                raise errors[message[0]](message[1])
            if message[0] != "alive":
                return message
        raise self._lost(f"no answer for {silence:.0f} seconds")

    def _lost(self, why: str) -> StoppedError:
        where = "Ray on this machine" if self.address is None else f"the Ray cluster at {self.address}"
        return StoppedError(f"{where} was lost ({why})")

    def close(self, patience: float = 10.0) -> None:
        """Close the connection, upon which the driver leaves the cluster or stops its own; wait so many seconds for it."""
        self.connection.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(patience)
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)  # with what is left of a cluster that it started
        for process in _session(self.process.pid):  # workers have groups of their own, and would notice only after seconds
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self.process.wait()


def _session(leader: int) -> Iterator[int]:
    """The processes of a session, where the system lists them in /proc."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            if int(path.read_text().rpartition(")")[2].split()[3]) == leader:
                yield int(path.parent.name)


_shared_drivers: ContextVar[list[DriverProcess] | None] = ContextVar("shared_drivers", default=None)


@contextmanager
def one_cluster() -> Iterator[None]:
    """Within this context, start Ray at most once: starting it for each map takes seconds."""
    drivers: list[DriverProcess] = []
    token = _shared_drivers.set(drivers)
    try:
        yield
    finally:
        _shared_drivers.reset(token)
        for driver in drivers:
            driver.close()


@contextmanager
def _driver(engine: RayEngine) -> Iterator[DriverProcess]:
    """Start a driver, or use that of an earlier map within `one_cluster`."""
    shared = _shared_drivers.get()
    address = engine.address
    if (ray := sys.modules.get("ray")) is not None and ray.is_initialized():  # the caller has a cluster already
        address = ray.get_runtime_context().gcs_address
    driver = next((driver for driver in shared or () if driver.process.poll() is None and driver.address == address), None)
    if driver is None:
        if address is not None:
            _check_address(address)
        driver = DriverProcess(address, max(engine.workers, os.cpu_count() or 1))
        if shared is not None:
            shared.append(driver)
    try:
        driver.wait_until_started()
        yield driver
    except BaseException as error:  # it may still be computing this job
        driver.close(10.0 if isinstance(error, Exception) else 0.0)  # an interruption does not wait
        raise
    if shared is None:
        driver.close()


def _check_address(address: str) -> None:
    """Raise at once if nothing answers at the address; Ray would try for a minute."""
    if address == "auto":
        return
    parts = urlsplit(address if "://" in address else f"ray://{address}")
    try:
        socket.create_connection((parts.hostname or "", parts.port or 10001), timeout=5).close()
    except (OSError, ValueError):
        raise RunError(unreachable(address)) from None


def unreachable(address: str) -> str:
    """Return the message for an address at which no cluster answers."""
    return (
        f"no Ray cluster answers at {address}; start one with `ray start --head`, pass its address as HOST:PORT, or leave "
        f"--address out to run on this machine."
    )
