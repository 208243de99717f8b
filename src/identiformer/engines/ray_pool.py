"""Actors that work on the shards of one job, and are replaced when they die."""

import queue
import socket
import time
from collections import deque
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from identiformer.errors import StoppedError

TRIES = 3
"""How often a shard is given to a worker that then dies."""
PERIOD = 1.0
"""Seconds between looks at the cluster."""
PATIENCE = 30.0
"""Seconds without a node that could hold a worker, after which the cluster is lost."""
# Set before a worker imports torch, which reads them then: the same bits need the same number of threads.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class ClusterLostError(Exception):
    """No node is left that could hold a worker."""


class Holder:
    """An actor: makes a worker once, model and all, and keeps it. Takes and returns bytes, which the driver only passes on."""

    def __init__(self, make_worker: bytes) -> None:
        self.make_worker = make_worker
        self.worker: Any = None

    def ready(self) -> None:
        """Answer as soon as the actor has a process."""

    def work(self, shard: bytes) -> tuple[str, bytes]:
        from ray.cloudpickle import cloudpickle

        # What a worker raises is returned as it is: Ray would wrap it.
        try:
            self.worker = self.worker or cloudpickle.loads(self.make_worker)()
            return "answer", cloudpickle.dumps(self.worker(cloudpickle.loads(shard)))
        except Exception as error:
            try:
                return "raised", cloudpickle.dumps(error)
            except Exception:  # what holds on to things that cannot be sent
                return "raised", cloudpickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))


class Pool:
    """Takes shards from an inbox, and sends their answers; ends when all of them are sent."""

    def __init__(
        self,
        connection: Connection,
        inbox: queue.SimpleQueue[Any],
        make_worker: bytes,
        shards: int,
        workers: int,
        gpus: int,
        *,
        watch: bool,
    ) -> None:
        import ray

        self.connection, self.inbox, self.watch = connection, inbox, watch
        self.left, self.workers, self.gpus = shards, workers, gpus
        self.make_worker = ray.put(make_worker)
        self.shards: dict[int, bytes] = {}
        self.tries: dict[int, int] = {}
        self.waiting: deque[int] = deque()
        self.starting: dict[Any, Any] = {}
        self.idle: list[Any] = []
        self.busy: dict[Any, tuple[Any, int]] = {}
        self.failed_starts = 0
        self.looked = self.usable = time.monotonic()

    def work(self) -> None:
        """Compute all shards of the job."""
        import ray

        while self.left:
            self._take_shards()
            self._staff()
            pending = [*self.starting, *self.busy]
            for reference in ray.wait(pending, timeout=PERIOD)[0] if pending else ():
                self._started(reference) if reference in self.starting else self._worked(reference)
            self._look_at_cluster()
        self._dismiss(len(self.idle), len(self.starting))

    def _take_shards(self) -> None:
        idle = not (self.starting or self.busy or self.waiting)
        with suppress(queue.Empty):
            while True:
                message = self.inbox.get(timeout=PERIOD) if idle else self.inbox.get_nowait()
                if message is None:
                    raise SystemExit
                _, number, self.shards[number] = message
                self.waiting.append(number)
                idle = False

    def _staff(self) -> None:
        """Start actors, no more than there are shards to compute; give shards to those that wait for one."""
        import ray

        while len(self.starting) + len(self.idle) + len(self.busy) < min(self.workers, self.left):
            options = {"num_cpus": 1, "num_gpus": self.gpus, "runtime_env": {"env_vars": ONE_THREAD}}
            actor_class: Any = ray.remote(**options)(Holder)
            actor = actor_class.remote(self.make_worker)
            self.starting[actor.ready.remote()] = actor
        given = bool(self.idle and self.waiting)
        while self.idle and self.waiting:
            actor, number = self.idle.pop(), self.waiting.popleft()
            self.busy[actor.work.remote(self.shards[number])] = (actor, number)
        if given:
            self.connection.send(("running", sorted(number for _, number in self.busy.values())))
        # An actor without work would keep the CPU that another one waits for, where nodes have died.
        spare = len(self.starting) + len(self.idle) + len(self.busy) - self.left
        dismissed = min(max(spare, 0), len(self.idle))
        self._dismiss(dismissed, max(spare, 0) - dismissed)

    def _dismiss(self, idle: int, starting: int) -> None:
        import ray

        for _ in range(idle):
            ray.kill(self.idle.pop())
        for _ in range(min(starting, len(self.starting))):
            ray.kill(self.starting.popitem()[1])

    def _started(self, reference: Any) -> None:
        import ray
        from ray.exceptions import RayError

        actor = self.starting.pop(reference)
        try:
            ray.get(reference)
        except RayError as error:
            self.failed_starts += 1
            if self.failed_starts == TRIES * self.workers:
                raise StoppedError(f"workers did not start {self.failed_starts} times in a row ({_first_line(error)})") from error
            return
        self.failed_starts = 0
        self.idle.append(actor)

    def _worked(self, reference: Any) -> None:
        import ray
        from ray.exceptions import RayError

        actor, number = self.busy.pop(reference)
        try:
            kind, content = ray.get(reference)
        except RayError as error:  # of many kinds: the actor, its node or its memory is gone
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

    def _look_at_cluster(self) -> None:
        """Send a sign of life, unless Ray blocks; stop where no node is left. Shards may take as long as they like."""
        now = time.monotonic()
        if now < self.looked + PERIOD:
            return
        if self._has_usable_node():
            self.usable = time.monotonic()
        elif now > self.usable + PATIENCE:
            needed = "a CPU and a GPU" if self.gpus else "a CPU"
            raise ClusterLostError(f"no node with {needed} for a worker has answered for {PATIENCE:.0f} seconds")
        self.looked = time.monotonic()
        self.connection.send(("alive",))

    def _has_usable_node(self) -> bool:
        import ray

        nodes = [node for node in ray.nodes() if node["Alive"] and self._fits(node["Resources"])]
        # Ray may take more than a minute to find that a machine is gone from the network.
        return any(_answers(node["NodeManagerAddress"], node["NodeManagerPort"]) for node in nodes) if self.watch else bool(nodes)

    def _fits(self, resources: dict[str, float]) -> bool:
        return resources.get("CPU", 0) >= 1 and resources.get("GPU", 0) >= self.gpus


def _answers(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=2).close()
    except OSError:
        return False
    return True


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0][:200].rstrip(".")
