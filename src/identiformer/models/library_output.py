"""Control what Hugging Face libraries print, warn and raise."""

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache
from importlib.metadata import version
from threading import Lock, RLock
from typing import Any

import transformers

from identiformer.errors import IdentiformerError, ModelError, first_line

_BUILDING = RLock()
"""Held while transformers builds a model, for which it replaces methods and torch's initializers in the whole process: if two
threads built at once, the replacements could stay, and later models would lose their tied weights."""

LONGEST_REASON = 240
"""Characters of a library's error message that are quoted; some are a page long."""


class SharedContext:
    """A process-wide context that the first thread enters and the last one leaves.

    A context that saves and restores state of the process is not safe in threads: one that is entered second and left last
    restores the state that the first had changed.
    """

    def __init__(self, make: Callable[[], AbstractContextManager[Any]]) -> None:
        self._make = make
        self._lock = Lock()
        self._threads_inside = 0
        self._entered = ExitStack()

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            if self._threads_inside == 0:
                self._entered.enter_context(self._make())
            self._threads_inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._threads_inside -= 1
                if self._threads_inside == 0:
                    self._entered.close()


warning_filters = SharedContext(warnings.catch_warnings)
"""A context in which warning filters may be set; they are removed when the last thread has left it."""


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Silence progress bars, advice and warnings, one thread at a time, because models are built in this context."""
    with _BUILDING, warning_filters(), ExitStack() as restore:
        restore.callback(transformers.logging.set_verbosity, transformers.logging.get_verbosity())
        for name in ("accelerate", "peft"):
            logger = logging.getLogger(name)
            restore.callback(logger.setLevel, logger.level)
            logger.setLevel(logging.ERROR)
        if transformers.logging.is_progress_bar_enabled():
            restore.callback(transformers.logging.enable_progress_bar)
        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        warnings.simplefilter("ignore")
        yield


@contextmanager
def model_errors(problem: str) -> Iterator[None]:
    """Turn whatever a library raises on broken or hostile files into a ModelError of one sentence that states the problem."""
    try:
        yield
    except (IdentiformerError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except MemoryError as error:
        raise ModelError(f"{problem}: it does not fit into memory; use a smaller one, or a machine with more.") from error
    except BaseException as error:  # a panic in a Rust library is not an Exception
        if "in your `generate` call" in str(error):
            raise ModelError(
                f"{problem}: its generation_config asks for {first_line(error).split(' requires')[0]}, which only code from the "
                "hub can run; remove that setting."
            ) from error
        if "trust_remote_code" in str(error):
            raise ModelError(
                f"{problem}: it comes with Python code, which can do anything and was not run; read the code, and if you trust "
                "it use allow_code=True."
            ) from error
        raise ModelError(f"{problem} ({_reason(error)}); check its files.") from error


@cache
def library_versions() -> dict[str, str]:
    """Versions in the provenance of results; cached, because reading them takes milliseconds and a corpus has many traces."""
    return {f"{package}_version": version(package) for package in ("identiformer", "torch", "transformers")}


def _reason(error: BaseException) -> str:
    text = " ".join(str(error).split())
    text = text if len(text) <= LONGEST_REASON else text[:LONGEST_REASON].rsplit(" ", 1)[0] + " …"
    terse = isinstance(error, (ArithmeticError, AttributeError, LookupError, TypeError)) or not text
    return (f"{type(error).__name__}: {text}" if terse else text).rstrip(".:; ")
