"""The application that commands are added to, and how it prints: streams that accept any character, one sentence per error."""

import io
import json
import os
import re
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import version
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

import identiformer as idf
from identiformer.errors import CorpusWarning, IdentiformerError, ModelWarning, StoppedError, first_line, raise_interruption
from identiformer.models.generation.settings import Generation
from identiformer.progress import status


class _Commands(TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        try:
            try:
                return super().invoke(ctx)
            except Exception as error:
                raise_interruption(error)
                raise
        except KeyboardInterrupt as interruption:  # Typer would drop its notes, which say what is finished
            end = SystemExit(INTERRUPTED)
            for note in getattr(interruption, "__notes__", ()):
                end.add_note(note)
            raise end from None


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
errors = Console(stderr=True)

STOPPED, BAD_INPUT, INTERRUPTED, CLOSED_PIPE = 1, 2, 130, 141
"""Exit statuses besides 0; the last two are the shell's for SIGINT and SIGPIPE, and SIGTERM ends with its 143. An unexpected
exception is 1 with a traceback."""
ONE_INTERRUPTION = 1.0
"""Seconds in which further signals belong to the same interruption: `timeout` sends two, and people press Ctrl-C twice."""
LONGEST_SENTENCE = 1200
NO_MEMORY = re.compile("can(no|')t allocate memory|out of memory|failed to map segment", re.IGNORECASE)
"""Messages of torch, and of the loader of its libraries, whose errors are not MemoryError."""
# Some versions of Typer bundle a copy of Click and others depend on Click: this finds the class of usage errors in both.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]


def print_version(wanted: bool) -> bool:
    """Print the version and end, if that is wanted."""
    if wanted:
        print(f"identiformer {version('identiformer')}")
        raise typer.Exit
    return wanted


@app.callback(help="What may a transformer's attention map be taken to mean?")
def identiformer(
    version: Annotated[bool, typer.Option("--version", help="Print the version.", callback=print_version, is_eager=True)] = False,
) -> None:
    """Options of the application itself; `version` is used up by its callback."""


def run_command(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status: 2 for bad input and 1 for a run that stopped, with one sentence each.

    arguments: the words after `identiformer`, by default those of the process.
    """
    prepare_streams()
    try:
        status = app(arguments, standalone_mode=False)
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except SystemExit as stop:  # an interruption; Typer and Rich also exit when the reader closes the pipe
        if isinstance(stop.__context__, BrokenPipeError):
            return _closed_pipe()
        _discard_unwritten(sys.stdout)
        notes = getattr(stop, "__notes__", ["finished work is kept, and nothing is half-written"])
        print_error(f"{notes[-1]}.", "interrupted")
        return stop.code if isinstance(stop.code, int) else STOPPED
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


def interrupt_on_signals() -> None:
    """Let SIGTERM, which a deadline or a batch system sends, end this process as orderly as Ctrl-C does."""
    begun, received, show = -ONE_INTERRUPTION, 0, sys.unraisablehook

    def interrupt(number: int, _: object) -> None:
        nonlocal begun, received
        if time.monotonic() - begun < ONE_INTERRUPTION:
            return
        begun, received = time.monotonic(), number
        raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)

    def interrupt_again(dropped: "sys.UnraisableHookArgs") -> None:
        nonlocal begun
        if not (received and isinstance(dropped.exc_value, KeyboardInterrupt | SystemExit)):
            show(dropped)
        elif not sys.is_finalizing():
            begun = -ONE_INTERRUPTION
            threading.Timer(0.01, os.kill, (os.getpid(), received)).start()

    sys.unraisablehook = interrupt_again  # Python drops what is raised in destructors and other callbacks
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:  # a shell ignores SIGINT for what it runs in the background
            signal.signal(number, interrupt)


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
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError | ImportError) and NO_MEMORY.search(str(error))):
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
    memory: str = "2GiB",
    layers: list[int] | None = None,
    heads: list[int] | None = None,
    writes: bool = False,
    reads_images: bool = False,
) -> Any:
    """Load a model, showing the current step; wrong options, layers and heads are found before it takes long.

    writes: whether the model must be a language model; reads_images: whether it must be a vision model.
    """
    from identiformer.models.loading.checks import check_chosen, check_load, check_reads_images, check_writes

    path = check_load(name, device, device_map, dtype, revision)
    check_chosen(name, path, revision, layers, heads)
    if writes:
        check_writes(name, path, revision)
    if reads_images:
        check_reads_images(name, path, revision)
    with status("loading torch and transformers …"):
        load = idf.load  # imports torch
    with status(f"loading {name} …"):
        return load(
            name, device=device, device_map=device_map, dtype=dtype, revision=revision, allow_pickle=allow_pickle, memory=memory
        )


def read_or_generate(loaded: Any, text: str, generation: Generation | None) -> Any:
    """The text that a command is about, or the answer of the model to it, if one was requested."""
    if generation is None:
        return text
    with status("writing the answer …"):
        return loaded.generate(text, **vars(generation))


def print_json(content: Any, indent: int | None = 2) -> None:
    """Print JSON; characters outside ASCII are escaped unless standard output is in Unicode."""
    unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    print(json.dumps(content, ensure_ascii=not unicode, indent=indent))


def print_lines(console: Console, *lines: str, **options: Any) -> None:
    """Print lines as they are, without markup."""
    console.print(*lines, sep="\n", markup=False, highlight=False, **options)


def print_markdown(text: str) -> None:
    """Print Markdown: laid out for the width of a terminal; as it is in a file or a pipe."""
    console = Console()
    if console.is_terminal:
        from rich.markdown import Markdown

        console.print(Markdown(text))
    else:
        print(text, end="")


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
