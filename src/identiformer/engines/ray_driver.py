"""The program that connects to Ray, computes one job after the other, and ends when its parent process does."""

import importlib
import os
import queue
import sys
import threading
from multiprocessing.connection import Connection
from typing import Any

import ray

from identiformer.engines.ray import unreachable
from identiformer.engines.ray_pool import ClusterLostError, Pool
from identiformer.errors import RunError, StoppedError, first_line

GRACE = 5.0
"""Seconds for an orderly disconnection from Ray."""


def main() -> None:
    """Serve the process at the other end of a connection, whose file descriptor is the first argument."""
    descriptor, cpus, address = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] or None
    os.set_inheritable(descriptor, False)  # the processes that Ray starts must not keep the connection open
    connection = Connection(descriptor)
    inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(connection, inbox), daemon=True).start()
    try:
        connect(address, cpus)
        connection.send(("started",))
        while (message := inbox.get()) is not None:
            Pool(connection, inbox, *message[1:], ping_nodes=address is None or "://" not in address).work()
    except ClusterLostError as error:
        connection.send(("lost", str(error)))
    except StoppedError as error:
        connection.send(("stopped", error.reason))
    except RunError as error:
        connection.send(("rejected", str(error)))
    except Exception as error:  # Ray raises exceptions of every kind when a cluster fails
        connection.send(("lost", f"{type(error).__name__}: {first_line(error)}"[:200].rstrip(".")))
    finally:
        timer = threading.Timer(GRACE, os._exit, (1,))
        timer.daemon = True
        timer.start()
        ray.shutdown()
        os._exit(0)


def _read(connection: Connection, inbox: queue.SimpleQueue[Any]) -> None:
    """Put messages into the inbox; when the parent closes the connection, put None and end the process soon."""
    try:
        while True:
            inbox.put(connection.recv())
    except (EOFError, OSError):
        inbox.put(None)
        threading.Timer(GRACE, os._exit, (1,)).start()


def connect(address: str | None, cpus: int) -> None:
    """Connect to the cluster at an address, or start Ray on this machine with this number of CPUs."""
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address is None:
        options |= {"num_cpus": cpus, "include_dashboard": False}
    elif "://" not in address and address != "auto":
        _enable_token_if_needed(address)
    try:
        ray.init(address or "local", **options)
    except Exception as error:  # of every kind, even a bare Exception on a busy machine that takes too long
        if address is not None:
            raise RunError(unreachable(address)) from error
        raise RunError(
            f"Ray could not be started on this machine ({str(error).strip().rstrip('.')}); try again when it is less busy, or "
            f"use one worker."
        ) from error


def _enable_token_if_needed(address: str) -> None:
    """Send the token found on this machine if the cluster requires one; Ray does so only for clusters that it finds itself.

    A token that is not required must not be sent, because the workers, which send none, could not talk to this process.
    """
    try:
        from ray._private.authentication.authentication_token_setup import maybe_enable_token_auth_if_token_available
        from ray.exceptions import AuthenticationError
    except ImportError:  # a version of Ray without tokens
        return
    raylet: Any = importlib.import_module("ray._raylet")  # a compiled module without type information
    has_token = raylet.AuthenticationTokenLoader.instance().has_token(ignore_auth_mode=True)
    expected = f"the Ray cluster at {address} expects its token"
    share = "copy ~/.ray/auth_token from the head of the cluster to this machine, or set RAY_AUTH_TOKEN to its content"
    try:
        if has_token or os.environ.get("RAY_AUTH_MODE", "").lower() != "token":  # otherwise Ray would end this process
            raylet.GcsClient(address=address)
            return
    except AuthenticationError:
        pass
    except Exception as error:
        raise RunError(unreachable(address)) from error
    if not has_token:
        raise RunError(f"{expected}, and none was found here; {share}.")
    if not maybe_enable_token_auth_if_token_available(warn_if_disabled=False):
        raise RunError(f"{expected}, but RAY_AUTH_MODE forbids sending it; unset that variable, or set it to token.")
    try:
        raylet.GcsClient(address=address)
    except AuthenticationError:
        raise RunError(f"{expected}, and got another one from here; {share}.") from None


if __name__ == "__main__":
    main()
