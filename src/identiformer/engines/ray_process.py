"""The process that talks to Ray, seen from the one that asked for it.

Ray ends the process that is connected to a cluster when the head is gone, may block for ever in a call where the network is, and
prints what it has to say of other nodes to standard output. Here that happens to a process of its own, and the run ends with one
sentence, having lost nothing.
"""

import multiprocessing
import os
import subprocess
import sys
from contextlib import suppress
from typing import Any

from identiformer.errors import RunError, StoppedError

SILENCE = 40.0
"""Seconds without a sign of life, which comes every second or two however long a shard takes, after which the cluster is lost."""
START = 150.0
"""Seconds in which Ray has to start, or to connect; it has shorter limits of its own, unless it hangs."""
ENVIRONMENT = {
    # Ray would warn of a variable that it is going to change, and workers without GPUs need none.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    # Ray would give its workers less of a core than any other program gets.
    "RAY_worker_niceness": "0",
}


class DriverProcess:
    """Runs `identiformer.engines.ray_driver`, and exchanges messages with it."""

    def __init__(self, address: str | None, cpus: int) -> None:
        self.address = address
        self.connection, theirs = multiprocessing.Pipe()
        command = [sys.executable, "-P", "-m", "identiformer.engines.ray_driver", str(theirs.fileno()), str(cpus), address or ""]
        # Workers look for modules where their driver does.
        path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)
        quiet: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        with theirs:
            self.process = subprocess.Popen(
                command,
                pass_fds=[theirs.fileno()],
                env={**ENVIRONMENT, **os.environ, "PYTHONPATH": path},
                start_new_session=True,  # Ctrl-C is for us, who then close the connection
                **quiet,
            )
        self.started = False

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def wait_until_started(self) -> None:
        """Wait until it is connected to a cluster, or has started one."""
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
        """The next message that is more than a sign of life; what the process gives up on is raised."""
        while self.connection.poll(silence):
            try:
                message = self.connection.recv()
            except (EOFError, OSError):
                raise self._lost("Ray closed the connection") from None
            if message[0] == "rejected":
                raise RunError(message[1])
            if message[0] == "stopped":
                raise StoppedError(message[1])
            if message[0] == "lost":
                raise self._lost(message[1])
            if message[0] != "alive":
                return message
        raise self._lost(f"no answer for {silence:.0f} seconds")

    def _lost(self, why: str) -> StoppedError:
        where = "Ray on this machine" if self.address is None else f"the Ray cluster at {self.address}"
        return StoppedError(f"{where} was lost ({why})")

    def close(self) -> None:
        """Let it go: it disconnects from Ray, or stops what it has started, when the connection ends."""
        self.connection.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(10)
        self.process.kill()
        self.process.wait()


def unreachable(address: str) -> str:
    """What to do where no cluster answers."""
    return (
        f"no Ray cluster answers at {address}; start one with `ray start --head`, give its address as HOST:PORT, or leave "
        f"--address out to run on this machine."
    )
