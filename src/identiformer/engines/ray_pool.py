"""The Ray actors that compute the shards of one job, and are replaced when they die."""

import queue
import socket
import time
from collections import deque
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

import ray
from ray.cloudpickle import cloudpickle
from ray.exceptions import RayError

from identiformer.errors import StoppedError, first_line

TRIES = 3
"""After this many workers have died on a shard, the run stops."""
PERIOD = 1.0
"""Seconds between checks of the cluster."""
PATIENCE = 30.0
"""Seconds without a node for a worker after which the cluster counts as lost."""
# Read by torch when a worker imports it: results are the same to the bit only with the same number of threads.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class ClusterLostError(Exception):
    """No node is left that has room for a worker."""


class WorkerActor:
    """A Ray actor that makes a worker once and keeps it; inputs and results are bytes, which the driver only passes on."""

    def __init__(self, make_worker: bytes) -> None:
        self.make_worker = make_worker
        self.worker: Any = None

    def ready(self) -> None:
        """Return as soon as the actor has a process."""

    def work(self, shard: bytes) -> tuple[str, bytes]:
        """Compute a shard; exceptions are returned, because Ray would wrap what a worker raises."""
        try:
            self.worker = self.worker or cloudpickle.loads(self.make_worker)()
            return "result", cloudpickle.dumps(self.worker(cloudpickle.loads(shard)))
        except Exception as error:
            try:
                return "raised", cloudpickle.dumps(error)
            except Exception:  # it refers to objects that cannot be pickled
                return "raised", cloudpickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))


class Pool:
    """Computes the shards that arrive in an inbox, and sends their results, until all of a job are sent."""

    def __init__(
        self,
        connection: Connection,
        inbox: queue.SimpleQueue[Any],
        make_worker: bytes,
        shards: int,
        workers: int,
        gpus: int,
        *,
        ping_nodes: bool,
    ) -> None:
        self.connection, self.inbox, self.ping_nodes = connection, inbox, ping_nodes
        self.left, self.workers, self.gpus = shards, workers, gpus
        self.make_worker = ray.put(make_worker)
        self.shards: dict[int, bytes] = {}
        self.tries: dict[int, int] = {}
        self.waiting: deque[int] = deque()
        self.starting: dict[Any, Any] = {}
        self.idle: list[Any] = []
        self.busy: dict[Any, tuple[Any, int]] = {}
        self.failed_starts = 0
        self.last_check = self.last_usable = time.monotonic()

    def work(self) -> None:
        """Compute all shards of the job."""
        while self.left:
            self._receive_shards()
            self._assign_shards()
            pending = [*self.starting, *self.busy]
            for reference in ray.wait(pending, timeout=PERIOD)[0] if pending else ():
                self._on_started(reference) if reference in self.starting else self._on_result(reference)
            self._check_cluster()
        self._stop_actors(len(self.idle), len(self.starting))

    def _receive_shards(self) -> None:
        idle = not (self.starting or self.busy or self.waiting)
        with suppress(queue.Empty):
            while True:
                message = self.inbox.get(timeout=PERIOD) if idle else self.inbox.get_nowait()
                if message is None:
                    raise SystemExit
                _, number, self.shards[number] = message
                self.waiting.append(number)
                idle = False

    def _assign_shards(self) -> None:
        """Start as many actors as there are shards left, up to the number of workers, and assign shards to idle ones."""
        while len(self.starting) + len(self.idle) + len(self.busy) < min(self.workers, self.left):
            options = {"num_cpus": 1, "num_gpus": self.gpus, "runtime_env": {"env_vars": ONE_THREAD}}
            actor_class: Any = ray.remote(**options)(WorkerActor)
            actor = actor_class.remote(self.make_worker)
            self.starting[actor.ready.remote()] = actor
        assigned = bool(self.idle and self.waiting)
        while self.idle and self.waiting:
            actor, number = self.idle.pop(), self.waiting.popleft()
            self.busy[actor.work.remote(self.shards[number])] = (actor, number)
        if assigned:
            self.connection.send(("running", sorted(number for _, number in self.busy.values())))
        # An idle actor keeps a CPU that another one may be waiting for if nodes have died.
        spare = max(len(self.starting) + len(self.idle) + len(self.busy) - self.left, 0)
        idle = min(spare, len(self.idle))
        self._stop_actors(idle, spare - idle)

    def _stop_actors(self, idle: int, starting: int) -> None:
        for _ in range(idle):
            ray.kill(self.idle.pop())
        for _ in range(min(starting, len(self.starting))):
            ray.kill(self.starting.popitem()[1])

    def _on_started(self, reference: Any) -> None:
        actor = self.starting.pop(reference)
        try:
            ray.get(reference)
        except RayError as error:
            self.failed_starts += 1
            if self.failed_starts == TRIES * self.workers:
                raise StoppedError(
                    f"workers did not start {self.failed_starts} times in a row ({first_line(error)[:200].rstrip('.')})"
                ) from error
            return
        self.failed_starts = 0
        self.idle.append(actor)

    def _on_result(self, reference: Any) -> None:
        actor, number = self.busy.pop(reference)
        try:
            kind, content = ray.get(reference)
        except RayError as error:  # the actor, its node or its memory is gone
            with suppress(Exception):
                ray.kill(actor)
            self.tries[number] = self.tries.get(number, 0) + 1
            if self.tries[number] == TRIES:
                raise StoppedError(
                    f"workers died {TRIES} times on shard {number} (out of memory?); use fewer workers or a smaller --max-length"
                ) from error
            self.waiting.appendleft(number)
            return
        self.left -= 1
        del self.shards[number]
        self.idle.append(actor)
        self.connection.send((kind, number, content))

    def _check_cluster(self) -> None:
        """Tell the parent process that Ray does not block, and raise if no usable node is left; shards may take any time."""
        now = time.monotonic()
        if now < self.last_check + PERIOD:
            return
        if self._has_usable_node():
            self.last_usable = time.monotonic()
        elif now > self.last_usable + PATIENCE:
            needed = "a CPU and a GPU" if self.gpus else "a CPU"
            raise ClusterLostError(f"no node with {needed} for a worker has answered for {PATIENCE:.0f} seconds")
        self.last_check = time.monotonic()
        self.connection.send(("alive",))

    def _has_usable_node(self) -> bool:
        return any(
            node["Alive"]
            and node["Resources"].get("CPU", 0) >= 1
            and node["Resources"].get("GPU", 0) >= self.gpus
            # Ray may take more than a minute to notice that a machine has left the network.
            and (not self.ping_nodes or _answers(node["NodeManagerAddress"], node["NodeManagerPort"]))
            for node in ray.nodes()
        )


def _answers(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=2).close()
    except OSError:
        return False
    return True
