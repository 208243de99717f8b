"""Where the command line meets the system: streams that cannot fail on a character, one sentence for what fails."""

import io
import os
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import typer

from identiformer.cli.shared import app, errors
from identiformer.errors import IdentiformerError, ModelWarning, StoppedError

STOPPED, BAD_INPUT, INTERRUPTED, CLOSED_PIPE = 1, 2, 130, 141
"""Exit statuses besides 0; the last two are the shell's own for SIGINT and SIGPIPE. A defect of ours is 1, with its traceback."""
LONGEST_SENTENCE = 1200
NO_MEMORY = re.compile("can't allocate memory|out of memory")
"""How torch says it, by errors that are no MemoryError."""
# Typer brings its own copy of Click in some versions and needs Click in others: the class of usage errors is where it is.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]


def run_command(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status; bad input is one sentence on standard error and status 2.

    A run that stopped with work left is a sentence, too, and status 1.

    arguments: the words after `identiformer`; without them, those of the process.
    """
    prepare_streams()
    try:
        status = app(arguments, standalone_mode=False)
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except KeyboardInterrupt:
        return INTERRUPTED
    except SystemExit as stop:
        # Typer and Rich end the process where nobody reads on; nothing else here does.
        if not isinstance(stop.__context__, BrokenPipeError):
            raise
        return _closed_pipe()
    except BrokenPipeError:
        return _closed_pipe()
    except UsageError as error:
        return _usage_error(error)
    except Exception as error:
        sentence = sentence_of(error)
        if sentence is None:
            raise
        _discard_unwritten(sys.stdout)
        complain(sentence)
        return STOPPED if isinstance(error, StoppedError) else BAD_INPUT


def prepare_streams() -> None:
    """Let standard output and standard error take any text in any locale, and be there even where they were closed."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  as long as the process lasts
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def sentence_of(error: BaseException) -> str | None:
    """What an exception says to a user, or None for one that nobody foresaw, which is a defect of ours."""
    if isinstance(error, IdentiformerError):
        return str(error)
    if isinstance(error, OSError):
        where = "files and standard output" if error.filename is None else os.fsdecode(error.filename)
        why = error.strerror or _first_line(error)
        return f"expected to read or write {where}, got the error {why!r}; check the path, its permissions and the space left."
    if isinstance(error, UnicodeError):
        return f"expected text in UTF-8, got {error}; convert the text, or set PYTHONUTF8=1 where a name is not in ASCII."
    if isinstance(error, RecursionError):
        return "expected input that is nested less deeply, got more levels than Python can follow; simplify the input."
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and NO_MEMORY.search(str(error))):
        return f"expected work that fits into memory, got {_first_line(error)}; use a shorter text, a smaller model or less data."
    return None


def complain(sentence: str, kind: str = "error") -> None:
    """Print an error as one line, whatever it quotes; nothing where standard error cannot be written to."""
    with suppress(OSError):
        errors.print(f"{kind}: {_one_line(sentence)}", markup=False, highlight=False, emoji=False, soft_wrap=True)


@contextmanager
def warnings_as_sentences() -> Iterator[None]:
    """Within this context, warnings of our own are printed as errors are, without the line of code that they came from."""
    show_others = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if issubclass(category, ModelWarning):
            complain(str(message), "warning")
        else:
            show_others(message, category, *place, **more)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def _one_line(sentence: str) -> str:
    words = " ".join(sentence.split())
    if len(words) > LONGEST_SENTENCE:  # the end says what to do
        words = f"{words[: LONGEST_SENTENCE - 300]} … {words[-300:]}"
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in words)


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _usage_error(error: Exception) -> int:
    message, context = error.format_message(), getattr(error, "ctx", None)  # type: ignore[attr-defined]
    if message:  # none where the help was asked for by giving no arguments, and was shown
        command = "identiformer --help" if context is None else f"{context.command_path} --help"
        complain(f"{message.rstrip('.')}; see {command}.")
    return BAD_INPUT


def _closed_pipe() -> int:
    """Be silent when whoever read our output has had enough, also while Python shuts down."""
    _discard_unwritten(sys.stdout)
    _discard_unwritten(sys.stderr)
    return CLOSED_PIPE


def _discard_unwritten(stream: io.TextIOBase | object) -> None:
    """Send what a stream still holds to nowhere if it cannot be written: Python would complain of it at the very end."""
    try:
        stream.flush()  # type: ignore[attr-defined]
    except OSError:
        with suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())  # type: ignore[attr-defined]
            os.close(nowhere)
