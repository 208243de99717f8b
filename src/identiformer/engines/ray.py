"""Workers as Ray actors, on this machine or on a cluster; a worker that dies is replaced and its shard done again."""

import importlib.util
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from identiformer.engines.engine import Job
from identiformer.errors import InputError, MissingPackageError, RunError

TRIES = 3
"""How often a shard is given to a worker that then dies."""
# Set before a worker imports torch, which reads them then: the same bits need the same number of threads.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


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
        import ray
        from ray.exceptions import RayActorError, RayTaskError

        # Whoever gets a long shard last keeps everybody waiting.
        waiting = sorted(job.numbers, key=lambda number: (-job.cost(number), number))
        tries = dict.fromkeys(waiting, 0)
        with _cluster(self):
            make_worker = ray.put(job.make_worker)
            busy: dict[Any, tuple[Any, int]] = {}

            def give(actor: Any, number: int) -> None:
                busy[actor.work.remote(job.fetch(number))] = (actor, number)
                job.running(sorted(number for _, number in busy.values()))

            for _ in range(min(self.workers, len(waiting))):
                give(_actor(make_worker, self.gpus_per_worker), waiting.pop(0))
            while busy:
                (ready,), _ = ray.wait(list(busy), num_returns=1)
                actor, number = busy.pop(ready)
                try:
                    answer = ray.get(ready)
                except RayActorError as error:
                    tries[number] += 1
                    if tries[number] == TRIES:
                        raise RunError(
                            f"workers died {TRIES} times on shard {number} (out of memory?); what is done is kept, so use "
                            f"fewer workers or a smaller --max-length and go on with --resume."
                        ) from error
                    give(_actor(make_worker, self.gpus_per_worker), number)
                    continue
                except RayTaskError as error:
                    raise error.cause from None
                if waiting:
                    give(actor, waiting.pop(0))
                yield number, answer


class Holder:
    """Makes a worker once, model and all, and keeps it."""

    def __init__(self, make_worker: Any) -> None:
        self.make_worker = make_worker
        self.worker: Any = None

    def work(self, shard: Any) -> Any:
        # Made here and not at the start, so that what it raises arrives as it is and not as the death of an actor.
        self.worker = self.worker or self.make_worker()
        return self.worker(shard)


def _actor(make_worker: Any, gpus: int) -> Any:
    import ray

    options = {"num_cpus": 1, "num_gpus": gpus, "runtime_env": {"env_vars": ONE_THREAD}}
    return ray.remote(**options)(Holder).remote(make_worker)


_kept: ContextVar[ExitStack | None] = ContextVar("kept", default=None)


@contextmanager
def one_cluster() -> Iterator[None]:
    """Within this Ray is started when it is first needed, and stopped in the end: starting it for each map takes seconds."""
    with ExitStack() as kept:
        token = _kept.set(kept)
        try:
            yield
        finally:
            _kept.reset(token)


@contextmanager
def _cluster(engine: RayEngine) -> Iterator[None]:
    """Ray, as the caller has started it, at an address, or on this machine until we are done."""
    import ray

    if ray.is_initialized():
        yield
        return
    _start(engine)
    kept = _kept.get()
    if kept is not None:
        kept.callback(ray.shutdown)
        yield
        return
    try:
        yield
    finally:
        ray.shutdown()


def _start(engine: RayEngine) -> None:
    import ray

    # Ray would warn of a variable that it is going to change, and workers without GPUs need none.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    # Ray would give its workers less of a core than any other program gets.
    os.environ.setdefault("RAY_worker_niceness", "0")
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if engine.address is None:
        options |= {"num_cpus": max(engine.workers, os.cpu_count() or 1), "include_dashboard": False}
    else:
        _check_address(engine.address)
    try:
        ray.init(engine.address or "local", **options)
    except Exception as error:  # Ray raises what it likes, down to a bare Exception where a busy machine takes too long
        raise RunError(_unreachable(engine.address, error)) from error


def _check_address(address: str) -> None:
    """Say at once that nobody answers there; Ray would try for a minute."""
    if address == "auto":
        return
    place = urlsplit(address if "://" in address else f"ray://{address}")
    try:
        socket.create_connection((place.hostname or "", place.port or 10001), timeout=5).close()
    except (OSError, ValueError):
        raise RunError(_unreachable(address, None)) from None


def _unreachable(address: str | None, error: Exception | None) -> str:
    if address is None:
        return f"Ray could not be started on this machine ({error}); try again when it is less busy, or use one worker."
    return (
        f"no Ray cluster answers at {address}; start one with `ray start --head`, give its address as HOST:PORT, or leave "
        f"--address out to run on this machine."
    )
