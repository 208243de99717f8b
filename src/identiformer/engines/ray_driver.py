"""The program that talks to Ray: connects, computes job after job, and ends when whoever started it does."""

import os
import queue
import sys
import threading
from multiprocessing.connection import Connection
from typing import Any

from identiformer.engines.ray_connect import connect
from identiformer.engines.ray_pool import ClusterLostError, Pool
from identiformer.errors import RunError, StoppedError

GRACE = 5.0
"""Seconds for leaving Ray in an orderly way."""


def main() -> None:
    """Serve the process at the other end of a connection, which is the first argument."""
    number, cpus, address = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] or None
    os.set_inheritable(number, False)  # what Ray starts must not keep the connection open
    connection = Connection(number)
    inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(connection, inbox), daemon=True).start()
    try:
        connect(address, cpus)
        connection.send(("started",))
        while (message := inbox.get()) is not None:
            Pool(connection, inbox, *message[1:], watch=address is None or "://" not in address).work()
    except ClusterLostError as error:
        connection.send(("lost", str(error)))
    except StoppedError as error:
        connection.send(("stopped", error.reason))
    except RunError as error:
        connection.send(("rejected", str(error)))
    except Exception as error:  # Ray raises what it likes when the cluster falls apart
        first = str(error).strip().split("\n")[0]
        connection.send(("lost", f"{type(error).__name__}: {first}"[:200].rstrip(".")))
    finally:
        _leave()


def _read(connection: Connection, inbox: queue.SimpleQueue[Any]) -> None:
    """Put messages into the inbox; after the last one None, and an end to whatever is still being done."""
    try:
        while True:
            inbox.put(connection.recv())
    except (EOFError, OSError):
        inbox.put(None)
        threading.Timer(GRACE, os._exit, (1,)).start()


def _leave() -> None:
    timer = threading.Timer(GRACE, os._exit, (1,))
    timer.daemon = True
    timer.start()
    import ray

    ray.shutdown()
    os._exit(0)


if __name__ == "__main__":
    main()
