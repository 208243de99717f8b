"""Every exception that identiformer raises: one base class, one sentence each, saying what to do. And its warnings."""


class IdentiformerError(Exception):
    """Base class of all errors raised on purpose; its message is one sentence for the user."""


class InputError(IdentiformerError, ValueError):
    """A text, an array or an option does not fit what was asked."""


class ModelError(IdentiformerError):
    """A model cannot be loaded, or holds weights that no analysis can use."""


class ModelWarning(UserWarning):
    """A model or its tokenizer may not be what it is taken for; the results are still those of the model as it is."""


class UnsupportedModelError(ModelError):
    """A model runs, but its attention cannot be recorded faithfully."""


class MissingPackageError(IdentiformerError, ImportError):
    """An optional package is needed; the message holds the line that installs it."""


class MemoryBudgetError(IdentiformerError, MemoryError):
    """A dense query x key array was asked for that exceeds the memory budget."""


class ResultError(IdentiformerError):
    """A stored result is missing, damaged or of another schema."""


class RunError(IdentiformerError):
    """A run over a corpus cannot start, go on or be read."""


class StoppedError(RunError):
    """A run stopped with work left; what is finished is kept, and the command line ends with status 1."""

    def __init__(self, reason: str, rest: str = "what is finished is kept") -> None:
        super().__init__(reason, rest)
        self.reason, self.rest = reason, rest

    def __str__(self) -> str:
        return f"{self.reason}; {self.rest}."
