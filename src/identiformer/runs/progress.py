"""How far a run is: a bar for people, or lines of JSON for schedulers."""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, runtime_checkable

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from identiformer.progress import bar_of

FORMS = ("none", "bar", "json")


@runtime_checkable
class RunProgress(Protocol):
    """Told which shards are being worked on, and how many examples are done."""

    def running(self, shards: Sequence[int]) -> None: ...
    def advance(self, examples: int) -> None: ...


class _Counter:
    """Counts examples, those of this process apart from those that were done before."""

    def __init__(self, total: int, before: int, shards: int) -> None:
        self.total, self.done, self.shards = total, before, shards
        self.computed, self.start = 0, time.monotonic()
        self.now: Sequence[int] = ()

    def running(self, shards: Sequence[int]) -> None:
        self.now = shards

    def advance(self, examples: int) -> None:
        self.done += examples
        self.computed += examples

    @property
    def rate(self) -> float:
        return self.computed / max(time.monotonic() - self.start, 1e-9)

    def what(self) -> str:
        return f"shard {', '.join(str(shard + 1) for shard in self.now)} of {self.shards}"


class _JsonLines(_Counter):
    def advance(self, examples: int) -> None:
        super().advance(examples)
        left = (self.total - self.done) / self.rate
        line = {
            "done": self.done,
            "examples": self.total,
            "examples_per_second": round(self.rate, 3),
            "seconds_left": round(left, 1),
            "running": self.what(),
        }
        print(json.dumps(line), flush=True)


class _Bar(_Counter):
    def __init__(self, total: int, before: int, shards: int, progress: Progress) -> None:
        super().__init__(total, before, shards)
        self.progress = progress
        self.task = progress.add_task("", total=total, completed=before, rate="")

    def running(self, shards: Sequence[int]) -> None:
        super().running(shards)
        self.progress.update(self.task, description=self.what())

    def advance(self, examples: int) -> None:
        super().advance(examples)
        self.progress.update(self.task, advance=examples, rate=f"{self.rate:.1f} examples/s")


@contextmanager
def run_progress(form: str, total: int, before: int, shards: int) -> Iterator[RunProgress]:
    """A bar on standard error, a line of JSON on standard output for every shard, or nothing."""
    if form == "json":
        yield _JsonLines(total, before, shards)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with bar_of(columns, form == "bar") as progress:
        yield _Bar(total, before, shards, progress)
