"""The exceptions and warnings of identiformer: one base class, and messages of one sentence that say what to do."""

import importlib.util
import sys


class IdentiformerError(Exception):
    """Base class of all errors raised on purpose; its message is one sentence for the user."""


class InputError(IdentiformerError, ValueError):
    """A text, an array or an option is not valid."""


class TextTooLongError(InputError):
    """A text has more tokens than the model accepts; it can be truncated."""


class ModelError(IdentiformerError):
    """A model cannot be loaded, or its weights cannot be analyzed."""


class ModelWarning(UserWarning):
    """A model, its tokenizer or input may not be as intended, or a part of a result is left out; the rest holds."""


class CorpusWarning(UserWarning):
    """Some rows of a corpus were left out; the message says how many, and why."""


class UnsupportedModelError(ModelError):
    """A model runs, but its attention cannot be recorded faithfully."""


class MissingPackageError(IdentiformerError, ImportError):
    """An optional package is needed; the message holds the line that installs it."""


class MemoryBudgetError(IdentiformerError, MemoryError):
    """A dense query x key array would exceed the memory budget."""


class ResultError(IdentiformerError):
    """A stored result is missing, damaged or of another schema version."""


class RunError(IdentiformerError):
    """A run over a corpus cannot start, continue or be read."""


class StoppedError(RunError):
    """A run stopped before its end; finished work is kept, and the command line exits with status 1."""

    def __init__(self, reason: str, rest: str = "finished work is kept") -> None:
        super().__init__(reason, rest)
        self.reason, self.rest = reason, rest

    def __str__(self) -> str:
        return f"{self.reason}; {self.rest}."


def raise_interruption(error: BaseException) -> None:
    """Raise the Ctrl-C or SIGTERM that a library has turned into an error, as extension modules do while they are imported.

    An error while an interruption is handled, such as one of a library that cleans up, counts as that interruption.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, KeyboardInterrupt | SystemExit):
            raise cause
        cause = cause.__cause__ or cause.__context__


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or its type if it has no message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def require_package(package: str, extra: str, need: str) -> None:
    """Raise MissingPackageError unless a package that an extra of identiformer installs is there; `need` says what for."""
    if importlib.util.find_spec(package) is None:
        raise MissingPackageError(f"{need}; run: pip install 'identiformer[{extra}]'")


def require_docstrings() -> None:
    """Raise InputError if Python removes docstrings, from which transformers builds its classes."""
    if sys.flags.optimize > 1:
        raise InputError(
            "expected Python with docstrings, which transformers needs, got -OO or PYTHONOPTIMIZE=2; use 1, or neither."
        )
