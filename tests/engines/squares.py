"""A worker for tests of engines, with few imports, so that its process starts quickly."""

import os
import signal
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Square:
    """A worker that kills its own process on one shard, once."""

    dies_on: int = -1
    mark: str = ""

    def __call__(self, number):
        if number == self.dies_on and (not self.mark or not Path(self.mark).exists()):
            if self.mark:
                Path(self.mark).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if number == 13:
            raise ArithmeticError("expected another number, got 13")
        return number * number, os.environ.get("OMP_NUM_THREADS")


class Maker:
    def __init__(self, *arguments):
        self.arguments = arguments

    def __call__(self):
        return Square(*self.arguments)


def raise_at_once():
    raise ArithmeticError("no worker")


def make_node():
    """A worker that returns the node it is on."""
    import ray

    return lambda number: ray.get_runtime_context().get_node_id()
