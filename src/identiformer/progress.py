"""The progress of computations: a bar in a terminal, plain lines in a file or pipe; that of a run also as JSON lines."""

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from threading import Event, Thread
from typing import Protocol, runtime_checkable

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

RUN_PROGRESS = ("none", "bar", "json")
SECONDS = 5.0
"""Between two plain lines."""


@runtime_checkable
class WorkBar(Protocol):
    """Receives how much work to expect, which may grow, and how much is done."""

    def expect(self, amount: int) -> None: ...
    def advance(self, amount: int) -> None: ...


@contextmanager
def _progress(columns: Iterable[ProgressColumn], shown: bool) -> Iterator[Progress]:
    """A bar on standard error that disappears at the end; plain lines where it cannot disappear, as in a file or a pipe."""
    console = Console(stderr=True)
    interactive = console.is_terminal or console.is_jupyter
    progress = Progress(*columns, console=console, transient=True, disable=not (shown and interactive))
    with progress, _lines(lambda: _line(progress)) if shown and not interactive else nullcontext():
        yield progress


@contextmanager
def _lines(describe: Callable[[], str]) -> Iterator[None]:
    """Print a line on standard error every few seconds."""
    ended = Event()

    def report() -> None:
        while not ended.wait(SECONDS):
            with suppress(OSError, ValueError):  # it may be closed
                print(describe(), file=sys.stderr, flush=True)

    thread = Thread(target=report, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _line(progress: Progress) -> str:
    task = progress.tasks[0] if progress.tasks else None
    if task is None or not task.total:
        return "working …"
    left = "" if task.time_remaining is None else f", about {task.time_remaining:.0f} s left"
    return f"{task.description or 'working'}: {task.percentage:.0f}% after {task.elapsed or 0:.0f} s{left}"


def status(what: str, shown: bool = True) -> AbstractContextManager[object]:
    """Show what is being done: animated in a terminal; where there is none, as plain lines with the seconds that it takes."""
    console, start = Console(stderr=True), time.monotonic()
    if not shown:
        return nullcontext()
    if console.is_terminal:
        return console.status(what)
    return _lines(lambda: f"{what} {time.monotonic() - start:.0f} s")


@contextmanager
def work_bar(what: str, shown: bool | WorkBar) -> Iterator[WorkBar]:
    """Show a progress bar if `shown` is true; if it is a bar itself, use that one."""
    if isinstance(shown, WorkBar):
        yield shown
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with _progress(columns, shown) as progress:
        task = progress.add_task(what, total=0)

        class Bar:
            def expect(self, amount: int) -> None:
                progress.update(task, total=(progress.tasks[0].total or 0) + amount)

            def advance(self, amount: int) -> None:
                progress.advance(task, amount)

        yield Bar()


class RunProgress:
    """Shows how many examples of a run are done; `done` of them were computed by earlier processes."""

    def __init__(self, form: str, total: int, done: int, shards: int, progress: Progress) -> None:
        self.form, self.total, self.done, self.shards, self.progress = form, total, done, shards, progress
        self.task = progress.add_task("", total=total, completed=done, rate="")
        self.computed, self.start = 0, time.monotonic()
        self.description = ""

    def running(self, shards: Sequence[int]) -> None:
        """Show which shards are being computed."""
        self.description = f"shard {', '.join(str(shard + 1) for shard in shards)} of {self.shards}"
        self.progress.update(self.task, description=self.description)

    def advance(self, examples: int) -> None:
        """Receive how many more examples are done."""
        self.done += examples
        self.computed += examples
        rate = self.computed / max(time.monotonic() - self.start, 1e-9)
        self.progress.update(self.task, advance=examples, rate=f"{rate:.1f} examples/s")
        if self.form == "json":
            line = {
                "done": self.done,
                "examples": self.total,
                "examples_per_second": round(rate, 3),
                "seconds_left": round((self.total - self.done) / rate, 1),
                "running": self.description,
            }
            print(json.dumps(line), flush=True)


@contextmanager
def run_progress(form: str, total: int, done: int, shards: int) -> Iterator[RunProgress]:
    """Show a bar on standard error, one line of JSON per shard on standard output, or nothing."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with _progress(columns, shown=form == "bar") as progress:
        yield RunProgress(form, total, done, shards, progress)
