"""Hugging Face libraries without their bars and advice."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

import transformers

from identiformer.models.shared_context import SharedContext

own_warnings = SharedContext(warnings.catch_warnings)
"""Within this context filters of warnings may be set; they are gone when the last thread has left it."""


_TURNS = RLock()
"""While transformers builds a model it replaces its own methods and torch's initializers for the whole process: if two threads
build at once, the replacements may stay, and later models are left without tied weights."""


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Keep loading bars and advice off the user's terminal; one thread at a time, since models are built within."""
    with _TURNS, _without_bars(), own_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _without_bars() -> Iterator[None]:
    level, bars = transformers.logging.get_verbosity(), transformers.logging.is_progress_bar_enabled()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers.logging.set_verbosity(level)
        if bars:
            transformers.logging.enable_progress_bar()
