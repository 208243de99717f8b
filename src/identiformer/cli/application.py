"""The application that commands are added to, and how it prints: streams that accept any character, one sentence per error."""

import io
import json
import os
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import typer
from rich.console import Console

from identiformer.errors import CorpusWarning, IdentiformerError, InputError, ModelWarning, StoppedError, first_line

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="What may a transformer's attention map be taken to mean?",
)
errors = Console(stderr=True)
STOPPED, BAD_INPUT, INTERRUPTED, CLOSED_PIPE = 1, 2, 130, 141
"""Exit statuses besides 0; the last two are the shell's for SIGINT and SIGPIPE. An unexpected exception is 1 with a traceback."""
LONGEST_SENTENCE = 1200
NO_MEMORY = re.compile("can't allocate memory|out of memory")
"""Messages of torch, whose errors are not MemoryError."""
# Some versions of Typer bundle a copy of Click and others depend on Click: this finds the class of usage errors in both.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]


def run_command(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status: 2 for bad input and 1 for a run that stopped, with one sentence each.

    arguments: the words after `identiformer`, by default those of the process.
    """
    prepare_streams()
    try:
        status = app(arguments, standalone_mode=False)
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except KeyboardInterrupt:
        return INTERRUPTED
    except SystemExit as stop:
        # Typer and Rich exit when the reader closes the pipe; nothing else here does.
        if not isinstance(stop.__context__, BrokenPipeError):
            raise
        return _closed_pipe()
    except BrokenPipeError:
        return _closed_pipe()
    except UsageError as error:
        message, context = error.format_message(), getattr(error, "ctx", None)  # type: ignore[attr-defined]
        if message:  # empty if the help was shown because there were no arguments
            command = "identiformer --help" if context is None else f"{context.command_path} --help"
            print_error(f"{message.rstrip('.')}; see {command}.")
        return BAD_INPUT
    except Exception as error:
        sentence = error_sentence(error)
        if sentence is None:
            raise
        _discard_unwritten(sys.stdout)
        print_error(sentence)
        return STOPPED if isinstance(error, StoppedError) else BAD_INPUT


def prepare_streams() -> None:
    """Make standard output and standard error accept any text in any locale, and exist even if they were closed."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  open until the process ends
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def error_sentence(error: BaseException) -> str | None:
    """The sentence for the user about an exception; None for an unexpected one, which is a bug."""
    if isinstance(error, IdentiformerError):
        return str(error)
    if isinstance(error, OSError):
        path = "files and standard output" if error.filename is None else os.fsdecode(error.filename)
        reason = error.strerror or first_line(error)
        return f"expected to read or write {path}, got the error {reason!r}; check the path, its permissions and the space left."
    if isinstance(error, UnicodeError):
        return f"expected text in UTF-8, got {error}; convert the text, or set PYTHONUTF8=1 where a name is not in ASCII."
    if isinstance(error, RecursionError):
        return "expected input that is nested less deeply, got more levels than Python can follow; simplify the input."
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and NO_MEMORY.search(str(error))):
        return f"expected work that fits into memory, got {first_line(error)}; use a shorter text, a smaller model or less data."
    return None


def print_error(sentence: str, kind: str = "error") -> None:
    """Print an error on one line of standard error, if it can be written to."""
    words = " ".join(sentence.split())
    if len(words) > LONGEST_SENTENCE:  # the end of a sentence says what to do
        words = f"{words[: LONGEST_SENTENCE - 300]} … {words[-300:]}"
    printable = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in words)
    with suppress(OSError):
        errors.print(f"{kind}: {printable}", markup=False, highlight=False, emoji=False, soft_wrap=True)


@contextmanager
def warnings_as_sentences() -> Iterator[None]:
    """Print each warning of this package once, like an error, without the line of code that raised it."""
    show_other, shown = warnings.showwarning, set[str]()

    def show(message: Warning | str, category: type[Warning], *where: Any, **options: Any) -> None:
        if issubclass(category, ModelWarning | CorpusWarning):
            if str(message) not in shown:
                print_error(str(message), "warning")
            shown.add(str(message))
        else:
            show_other(message, category, *where, **options)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def load_model(
    name: str,
    device: str,
    dtype: str = "auto",
    allow_pickle: bool = False,
    device_map: str | None = None,
    revision: str | None = None,
) -> Any:
    """Load a model, showing the current step."""
    with errors.status("loading torch and transformers …") as status:
        import identiformer as idf

        status.update(f"loading {name} …")
        return idf.load(name, device=device, device_map=device_map, dtype=dtype, revision=revision, allow_pickle=allow_pickle)


def read_or_generate(loaded: Any, text: str, pair: str | None, chat: bool, system: str | None, generate: int | None) -> Any:
    """The text that a command is about, or the answer of the model to it, if one was requested."""
    from identiformer.models.generation.settings import Generation

    generation = Generation.of(chat, system, generate)
    if generation is None:
        return text
    if pair is not None:
        raise InputError("expected one text for a language model to answer, got a pair; leave --pair out.")
    with errors.status("writing the answer …"):
        return generation.answer(loaded, text)


def print_json(content: Any, indent: int | None = 2) -> None:
    """Print JSON; characters outside ASCII are escaped unless standard output is in Unicode."""
    unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    print(json.dumps(content, ensure_ascii=not unicode, indent=indent))


def print_lines(console: Console, *lines: str, **options: Any) -> None:
    """Print lines as they are, without markup."""
    console.print(*lines, sep="\n", markup=False, highlight=False, **options)


def _closed_pipe() -> int:
    """Be silent if the reader has closed the pipe, also while Python shuts down."""
    _discard_unwritten(sys.stdout)
    _discard_unwritten(sys.stderr)
    return CLOSED_PIPE


def _discard_unwritten(stream: io.TextIOBase | object) -> None:
    """Discard what a stream buffers if it cannot be written, which Python would report when it exits."""
    try:
        stream.flush()  # type: ignore[attr-defined]
    except OSError:
        with suppress(OSError, ValueError):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, stream.fileno())  # type: ignore[attr-defined]
            os.close(null)
