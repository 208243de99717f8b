"""Hugging Face libraries without their bars and advice."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import transformers

from identiformer.models.shared_context import SharedContext

own_warnings = SharedContext(warnings.catch_warnings)
"""Within this context filters of warnings may be set; they are gone when the last thread has left it."""


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Keep loading bars and advice off the user's terminal."""
    with _without_bars(), own_warnings():
        warnings.simplefilter("ignore")
        yield


@SharedContext
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
