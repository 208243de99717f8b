"""A change of the whole process that several threads may ask for at once."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import Lock
from typing import Any


class SharedContext:
    """A context that the first thread to come enters, and the last to go leaves.

    Contexts that save and restore what belongs to the process go wrong in threads: one that is entered second and left last
    restores the state that the first had changed.
    """

    def __init__(self, make: Callable[[], AbstractContextManager[Any]]) -> None:
        self._make = make
        self._lock = Lock()
        self._inside = 0
        self._entered: AbstractContextManager[Any] | None = None

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            if self._entered is None:
                entered = self._make()
                entered.__enter__()
                self._entered = entered
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if self._inside == 0:
                    entered, self._entered = self._entered, None
                    entered.__exit__(None, None, None)
