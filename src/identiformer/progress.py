"""Progress bars for computations, and the progress of a run as a bar or as JSON lines."""

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
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


@runtime_checkable
class WorkBar(Protocol):
    """Receives how much work to expect, which may grow, and how much is done."""

    def expect(self, amount: int) -> None: ...
    def advance(self, amount: int) -> None: ...


def _progress(columns: Iterable[ProgressColumn], shown: bool) -> Progress:
    """A bar on standard error that disappears at the end; a file or a pipe, where it cannot disappear, gets none."""
    console = Console(stderr=True)
    interactive = console.is_terminal or console.is_jupyter
    return Progress(*columns, console=console, transient=True, disable=not (shown and interactive))


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
