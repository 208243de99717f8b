"""Hugging Face libraries without their bars and advice."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import transformers


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Keep loading bars and advice off the user's terminal."""
    level, bars = transformers.logging.get_verbosity(), transformers.logging.is_progress_bar_enabled()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        transformers.logging.set_verbosity(level)
        if bars:
            transformers.logging.enable_progress_bar()
